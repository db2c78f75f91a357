// A library that type_counter loads: classes of its own, one of which is called as one of the
// program is, and one that the program has, too.
#include "type_ledger.h"

namespace shop {

// As in the program.
class Base {
 public:
  virtual ~Base() = default;
  virtual int work() { return number_; }

 protected:
  int number_ = 1;
};

}  // namespace shop

namespace plugin {

class Filter : public shop::Base {
 public:
  double weights[9] = {};
};

}  // namespace plugin

namespace {

class Hidden : public plugin::Filter {
 public:
  long more = 1;
};

void* volatile g_kept[300];

}  // namespace

extern "C" void make_objects() {
  for (int i = 0; i < 100; ++i) {
    g_kept[3 * i] = type_ledger::make<plugin::Filter>("plugin::Filter");
    g_kept[3 * i + 1] = type_ledger::make<Hidden>("(anonymous namespace)::Hidden");
    g_kept[3 * i + 2] = type_ledger::make<shop::Base>("shop::Base");
  }
  type_ledger::print();
}
