// What typed_holder.cpp only declares, and typed_holder_parts.cpp defines.
#pragma once

namespace shop {

class Ledger;  // of another unit
Ledger* make_ledger(int pages);

}  // namespace shop
