#include "typed_block_count.h"
#include "typed_holder.h"

namespace shop {

struct Page {
  int number;
  Page* next;
  char lines[80];
};

class Ledger {
 public:
  explicit Ledger(int pages) {
    for (int i = 0; i < pages; ++i) {
      first_ = typed_block_count::one("shop::Page", new Page{i, first_, "page"});
    }
  }

 private:
  Page* first_ = nullptr;
  [[maybe_unused]] long sums_[7] = {1, 2, 3};
};

Ledger* make_ledger(int pages) {
  return typed_block_count::one("shop::Ledger", new Ledger(pages));
}

}  // namespace shop
