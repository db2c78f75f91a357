// Classes without RTTI: only symbols name their vtables.
#include "root_holder.h"

namespace plain {

struct Shape {
  virtual ~Shape() = default;
  virtual int corners() const { return 0; }
};
struct Square : Shape {
  int corners() const override { return 4; }
};

}  // namespace plain

namespace root_holder {

void make_plain_objects() {
  say("symbol-object", "plain::Square", new plain::Square);
}

}  // namespace root_holder
