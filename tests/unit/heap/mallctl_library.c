/* Exports what only jemalloc does (HEAPSNAP_DEFINES), or only asks for it. */
int mallctl(const char* name, void* old, unsigned long* old_size, void* value, unsigned long size);

#ifdef HEAPSNAP_DEFINES
int mallctl(const char* name, void* old, unsigned long* old_size, void* value, unsigned long size) {
  return name == old || old_size == value || size == 0;
}
#else
#pragma weak mallctl
int asks_for_mallctl(void) {
  return mallctl != 0;
}
#endif
