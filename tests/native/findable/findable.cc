// A library that does nothing. Its name inside is as long as any that a test writes over it.
extern "C" __attribute__((visibility("default"))) int tunableop_findable() { return 1; }
