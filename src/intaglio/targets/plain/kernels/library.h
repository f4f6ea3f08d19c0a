/* Nothing is declared here: exported files include the headers of C's library. */
#define HAS_LIBRARY_HEADERS 1
