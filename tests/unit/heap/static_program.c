/* Has malloc linked in. Looked at as a file; never run. */
#include <stdlib.h>

int main(int argc, char** argv) {
  void* memory = malloc((size_t)argc * 100);
  free(memory);
  return memory == (void*)argv;
}
