}
#if AXES > 1
}
#endif
#if AXES > 2
}
#endif
#if AXES > 3
}
#endif
