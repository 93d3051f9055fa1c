// An assertion of a kernel that does not hold ends the run.
#undef assert
#ifdef NDEBUG
#define assert(condition) ((void)0)
#else
#define assert(condition) ((condition) ? (void)0 : emulate::fail("an assertion does not hold: " #condition))
#endif
