// Types that debug_types_test.cpp asks for.
#include <map>
#include <string>
#include <vector>

namespace fixture {

class Declared;  // by the other unit

struct Plain {
  int number;
  Plain* next;
};

struct Derived : Plain {
  Declared* declared;
  char* texts[4];
  void* anything;
  union {
    Plain* one;
    Derived* other;
  };
  union {
    Plain* sure;
    long number_too;
  };
  Plain inside[3];
  unsigned bit : 1;
};

class Virtual {
 public:
  virtual ~Virtual() {}
  Plain* plain = nullptr;
};

typedef struct {
  long values[4];
} Unnamed;

struct Open {
  long length;
  char bytes[];
};

struct Old {
  long length;
  char text[1];
};

Derived g_derived;
Old* g_old;
std::map<std::string, Plain*> g_map;
std::vector<Plain> g_vector;
Unnamed* g_unnamed;
Open* g_open;
thread_local Plain* t_plain;
Virtual g_virtual;

Plain* with_static() {
  static Plain* kept = nullptr;
  return kept;
}

}  // namespace fixture
