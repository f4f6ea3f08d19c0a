/* How channels fill vectors where their number is known: 1 whole vectors alone, 2 a part of one alone; 0: not known.
   Half of the code is left out then. */
#ifndef FILL
#define FILL 0
#endif
#define HAS_WHOLE (FILL != 2)
#define HAS_PART (FILL != 1)
