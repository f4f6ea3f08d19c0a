/* What plain kernels use: those that include this file are C11 and use C's library by its own names. */
#include "kernel.h"
#include "library.h"
