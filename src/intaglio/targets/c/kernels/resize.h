/* What tells how an axis is resized. */
typedef struct {
    double scale;      /* 0 where it is the ratio of the sizes */
    double start, end; /* of what is cut out, as a share of the axis */
    double cubic;      /* the free parameter of cubic weights */
    double stretch;    /* by how much weights are widened */
    double is_scaled;  /* whether scales are given, and not sizes */
} IG_FUNCTION_numbers;
