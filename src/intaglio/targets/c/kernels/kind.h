/* The kind of vectors, which have IG_LANES elements of any width, and the C type of the elements. */
#ifndef KIND
#define KIND f32
#endif
#ifndef ELEMENT
#define ELEMENT float
#endif
#define JOINED(a, b) a##b
#define JOIN(a, b) JOINED(a, b)
/* The function of vectors of this kind whose name begins so. */
#define OF_KIND(name) JOIN(name, KIND)
#define VECTOR JOIN(ig_, KIND)
#define LOAD OF_KIND(ig_load_)
#define LOAD_N OF_KIND(ig_load_n_)
#define STORE OF_KIND(ig_store_)
#define STORE_N OF_KIND(ig_store_n_)
#define SET OF_KIND(ig_set_)
