#include <cstdio>

int main() {
  std::fputs("heapsnap: no command yet\n", stderr);
  return 2;
}
