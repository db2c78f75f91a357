// A library that root_holder loads when it runs: its thread-local variables are in memory from
// malloc, its classes are only known to itself.
#include <cstdlib>

namespace {

thread_local void* loaded_word = nullptr;
void* loaded_table[2] = {};

class Hidden {
 public:
  virtual ~Hidden() = default;
  virtual int value() const { return value_; }

 private:
  int value_ = 1;
};

}  // namespace

namespace loaded {

struct Base {
  virtual ~Base() = default;
  long base = 1;
};
struct Derived : virtual Base {
  ~Derived() override = default;
  long derived = 2;
};

}  // namespace loaded

extern "C" {
void* loaded_thread_local() {
  return &loaded_word;
}
void* loaded_data() {
  return static_cast<void*>(loaded_table);
}
void* loaded_hidden() {
  return new Hidden;
}
void* loaded_derived() {
  return new loaded::Derived;
}
}
