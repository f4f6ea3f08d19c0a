/* What direct convolutions share. A task is row_block rows by col_block columns of output pixels by panel_block panels
   of COLUMNS output channels.
   tasks: images * groups * OD * ceil(OH / row_block) * ceil(OW / col_block) *
          ceil(ceil(OC / groups / COLUMNS) / panel_block) */
#include "kernel.h"

typedef struct {
    void *x, *w; /* the epilogue's are behind them */
} IG_FUNCTION_buffers;

typedef struct {
#include "window_sizes.h"
    int64_t groups, OC;
    int64_t row_block, col_block, panel_block;
} IG_FUNCTION_sizes;

#include "tile.h"
#include "finish.h"
