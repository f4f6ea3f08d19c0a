/* One to four axes; what belongs to an axis has its number behind its name. begin_axes.h opens loops of an INDEX along
   each axis of an EXTENT; begin_taps.h opens those along a kernel or window whose elements lie at places of an image of
   an EXTENT; begin_padded_taps.h counts elements in the pads of the image too. end_axes.h closes the loops of each. */
#ifndef AXES
#define AXES 2
#endif
#define JOINED(a, b) a##b
#define JOIN(a, b) JOINED(a, b)
/* The index of the element of an image `first` that lies at a place. */
#if AXES == 1
#define PLACE(first, place, extent) first * extent##0 + place##0
#elif AXES == 2
#define PLACE(first, place, extent) (first * extent##0 + place##0) * extent##1 + place##1
#elif AXES == 3
#define PLACE(first, place, extent) ((first * extent##0 + place##0) * extent##1 + place##1) * extent##2 + place##2
#else
#define PLACE(first, place, extent)                                                                                    \
    (((first * extent##0 + place##0) * extent##1 + place##1) * extent##2 + place##2) * extent##3 + place##3
#endif
