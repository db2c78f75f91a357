// A library that is loaded by dlopen(3) and holds a block in each kind of variable.
#include <cstddef>
#include <cstdlib>

namespace {

int g_anything;
void* volatile g_in_data = &g_anything;
void* volatile g_in_bss;
thread_local void* volatile t_in_thread_local = nullptr;

void* hold(void* volatile& variable, size_t size) {
  variable = std::malloc(size);
  return variable;
}

}  // namespace

extern "C" void* hold_in_data(size_t size) {
  return hold(g_in_data, size);
}
extern "C" void* hold_in_bss(size_t size) {
  return hold(g_in_bss, size);
}
extern "C" void* hold_in_thread_local(size_t size) {
  return hold(t_in_thread_local, size);
}
