// Some objects of Ruby in a handmade heap, and what lies between them.
//
//   ORDERS ──► array ──► items ──► first, second            items: a block of malloc
//              first ──► details ──► text                   details: a block of both orders
//              second ──► details, array
//   Order (a class), #<Class:0x...> (without a constant), each with Class as its own
#pragma once

#include <fmt/format.h>

#include <string>

#include "tests/unit/analysis/handmade_references.h"

namespace heapsnap::test {

struct HandmadeRuby {
  static constexpr uint64_t kFirstSlot = 0x7f0000000000;
  static constexpr uint64_t kPage = 0x4000;
  static constexpr uint32_t kClass = 8;  // offset of a slot's class

  HandmadeHeap heap;
  BlockNumber items = 0;
  BlockNumber details = 0;
  BlockNumber class_class = 0;
  BlockNumber order_class = 0;
  BlockNumber anonymous = 0;
  BlockNumber array = 0;
  BlockNumber first = 0;
  BlockNumber second = 0;
  BlockNumber text = 0;
  BlockNumber cache = 0;
  BlockNumber dead = 0;
  SnapshotStreams streams;

  HandmadeRuby() {
    items = heap.add(120);
    details = heap.add(56);
    const TypeNumber of_class = type("Class", "CLASS");
    const TypeNumber of_order = type("Order", "OBJECT");
    class_class = slot(of_class, 160);
    order_class = slot(of_class, 160, class_class);
    anonymous = slot(of_class, 160, class_class);
    array = slot(type("Array", "ARRAY"), 40, anonymous);
    first = slot(of_order, 40, order_class);
    second = slot(of_order, 40, order_class);
    text = slot(type("String", "STRING"), 40);
    // What the interpreter keeps has a reference where objects have their class.
    cache = slot(type("(internal) IMEMO constcache", "IMEMO", "constcache"), 40, order_class);
    dead = slot(type("Order (unswept)", ""), 40, order_class);
    slot(type(fmt::format("#<Class:{:#018x}>", address(anonymous)), "OBJECT"), 40, anonymous);
    heap.link(class_class, kClass, class_class);
    heap.link(array, 32, items);
    heap.link(items, 0, first);
    heap.link(items, 8, second);
    heap.link(items, 16, second);
    heap.link(first, 16, details);
    heap.link(second, 16, details);
    heap.link(second, 24, array);
    heap.link(details, 8, text);
    heap.link(details, 16, dead);
    hold("ORDERS", array);
    hold("Order", order_class);
    hold("Order::ALIAS", order_class);
    hold("Order.@@known", text);
    hold("Class", class_class);
    hold("$details", details);
    heap.hold(heap.add_place(RootKind::kStack, "main", 7), second);
    heap.hold(heap.add_place(RootKind::kRegister, "rbx", 7), second);
    heap.hold(heap.add_place(RootKind::kVariable, "cache"), dead);
    heap.snapshot.metadata.references.emplace();
    streams = heap.finish();
  }

  uint64_t address(BlockNumber block) const { return kFirstSlot + (block - class_class) * kPage; }

 private:
  TypeNumber type(const std::string& name, const std::string& builtin,
                  const std::string& part = "") {
    const TypeNumber number = heap.add_type(name);
    heap.streams.types[number].source = TypeSource::kRuntime;
    heap.streams.types[number].builtin = builtin;
    heap.streams.types[number].part = part;
    return number;
  }
  BlockNumber slot(TypeNumber of_type, uint64_t bytes, BlockNumber of_class = kNoBlock) {
    const BlockNumber block = heap.add(bytes, of_type);
    if (of_class != kNoBlock) heap.link(block, kClass, of_class);
    ++heap.slots;
    return block;
  }
  void hold(const std::string& name, BlockNumber target) {
    heap.hold(heap.add_place(RootKind::kGlobal, name), target);
  }
};

}  // namespace heapsnap::test
