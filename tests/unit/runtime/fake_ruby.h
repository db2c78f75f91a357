// The memory of a CRuby in a FakeTarget: its state, its pages, its first classes, and objects that
// a test puts into slots.
//
//   0x100000   data: rb_cObject and others, then the pointer to rb_vm_t and the one to the shapes
//   0x200000   heap: rb_vm_t, the object space, the list of pages, headers, tables, texts, shapes
//   0x40000000 pages, each at a multiple of 64 KiB
//
// The first page has classes, each in a slot of 160 bytes (of 40, where the version has no larger
// ones); the second one what they are called.
#pragma once

#include <array>
#include <cstring>
#include <string>
#include <vector>

#include "runtime/ruby/ruby_place.h"
#include "runtime/ruby/ruby_value.h"
#include "runtime/ruby/ruby_walk.h"
#include "tests/unit/heap/fake_target.h"
#include "tests/unit/runtime/model_sums.h"

namespace heapsnap::test {

class FakeRuby {
 public:
  static constexpr uint64_t kVariables =
      0x100000;  // rb_cObject, rb_mKernel, rb_cRubyVM, rb_cString
  static constexpr uint64_t kVm = 0x200000;
  static constexpr uint64_t kSpace = 0x202000;
  static constexpr uint64_t kList = 0x204000;
  static constexpr uint64_t kHeaders = 0x206000;
  static constexpr uint64_t kHeaderRoom = 0x400;
  static constexpr uint64_t kTree = 0x20f000;
  static constexpr uint64_t kTables = 0x210000;
  static constexpr uint64_t kShapes = 0x230000;
  static constexpr uint64_t kPages = 0x40000000;
  static constexpr uint64_t kPageRoom = 0x10000;
  static constexpr uint64_t kMostPages = 8;
  static constexpr uint64_t kFirstSlot = 40;
  static constexpr uint64_t kPathKey = 0x1230;  // __classpath__
  static constexpr uint64_t kAttachedKey = 0x4560;
  static constexpr uint64_t kEmbedded = RubyValue::user_flag(1);
  // The first four have room for 0, 3, and 6 variables, and a table.
  static constexpr uint64_t kShapeCount = 7;
  static constexpr uint64_t kNamedShape = 4;
  static constexpr uint64_t kAttachedShape = 5;
  static constexpr uint64_t kKnownShape = 6;

  explicit FakeRuby(unsigned major = 3, unsigned minor = 1)
      : target(Machine::kX86_64), layout(*ruby_layouts(major, minor).at(0)) {
    target.map("00100000-00101000 rw-p 00000000 08:01 4711 /usr/lib/libruby.so");
    target.map("00200000-00240000 rw-p 00000000 00:00 0 [heap]");
    target.map("40000000-40080000 rw-p 00000000 00:00 0");
    place.module = "/usr/lib/libruby.so";
    place.version = layout.version();
    place.object_class = Address(kVariables);
    place.kernel_module = Address(kVariables + 8);
    place.machine_class = Address(kVariables + 16);
    place.string_class = Address(kVariables + 24);
    place.data = {{Address(0x100000), Address(0x101000)}};
    place.layouts = {&layout};
    put(kVariables + 32, kVm);
    put(kVm + layout.vm_objspace, kSpace);
    put(kSpace + layout.space_pages, kList);
    classes_ =
        add_page(layout.page_slot_bytes == RubyLayout::kNone || has_small_classes() ? 40 : 160, 60);
    names_ = add_page(40, 200);
    class_class = add_class("", 0);
    object_class = add_class("Object", 0);
    put(class_class + 8, class_class);
    name_class(class_class, "Class");
    kernel_module = add_class("Kernel", 0, RubyType::kModule);
    string_class = add_class("String", object_class);
    machine_class = add_class("RubyVM", object_class);
    const uint64_t classes[] = {object_class, kernel_module, machine_class, string_class};
    for (size_t i = 0; i < std::size(classes); ++i) put(kVariables + i * 8, classes[i]);
    self = next_slot(names_);
    put(self, static_cast<uint64_t>(RubyType::kData));
    put(self + 8, machine_class);
    put(self + 24, 1);
    put(self + 32, kVm);
    put(kVm + layout.vm_self, self);
    if (layout.has_shapes()) {
      const uint64_t tree = layout.vm_shapes == 0 ? kTree : kVm + layout.vm_shapes;
      if (layout.vm_shapes == 0) put(kVariables + 40, kTree);
      put(tree, kShapes);
      put(tree + 8, kShapes);
      put_int(tree + layout.tree_next_shape, kShapeCount);
      for (uint64_t i = 0; i < kShapeCount; ++i) {
        put_int(kShapes + i * layout.shape_bytes + layout.shape_capacity, i * 3);
        put_int(kShapes + i * layout.shape_bytes + layout.shape_parent, i == 0 ? UINT32_MAX : 0);
      }
      put_int(kShapes + 3 * layout.shape_bytes + layout.shape_type, layout.shape_type_complex);
      set_shape_variable(kNamedShape, 0, kPathKey);
      set_shape_variable(kAttachedShape, 0, kAttachedKey);
    }
  }

  // A page of free slots; its number.
  uint64_t add_page(uint64_t slot_bytes, uint64_t slots) {
    const uint64_t number = pages_.size();
    const uint64_t header = kHeaders + number * kHeaderRoom;
    const uint64_t body = kPages + number * kPageRoom;
    pages_.push_back({slot_bytes, 0});
    put(body, header);
    put(header + layout.page_start, body + kFirstSlot);
    put_short(header + layout.page_total_slots, slots);
    if (layout.page_slot_bytes != RubyLayout::kNone) {
      put_short(header + layout.page_slot_bytes, slot_bytes);
    }
    put(kList + layout.space_pages_data + number * 8, header);
    set_page_count(pages_.size());
    return number;
  }
  uint64_t slot(uint64_t page, uint64_t number) const {
    return kPages + page * kPageRoom + kFirstSlot + number * pages_[page].slot_bytes;
  }
  uint64_t next_slot(uint64_t page) { return slot(page, pages_[page].used++); }
  uint64_t header_of(uint64_t page) const { return kHeaders + page * kHeaderRoom; }

  // An object in a page's next slot.
  uint64_t add(uint64_t page, uint64_t of_class, RubyType type, uint64_t flags = 0) {
    const uint64_t at = next_slot(page);
    put(at, static_cast<uint64_t>(type) | flags);
    put(at + 8, of_class);
    return at;
  }
  // Named unless its name is empty.
  uint64_t add_class(const std::string& name, uint64_t super, RubyType type = RubyType::kClass,
                     uint64_t flags = 0) {
    const uint64_t at = add(classes_, class_class, type, flags);
    put(at + layout.class_super, super);
    if (has_small_classes()) {
      put(at + layout.class_extension, next_table(64));
    }
    if (!name.empty()) name_class(at, name);
    return at;
  }
  void name_class(uint64_t at, const std::string& name) {
    const uint64_t text = add_text(name);
    if (has_small_classes()) {
      set_variable(at, kPathKey, text);
    } else if (layout.class_path == RubyLayout::kNone) {
      set_shape(at, kNamedShape, text);
    } else {
      put(at + layout.class_path, text);
    }
  }
  // The class that only the object at `at` has.
  uint64_t add_singleton(uint64_t at, uint64_t super) {
    const uint64_t found = add_class("", super, RubyType::kClass, layout.flag_singleton);
    put(at + 8, found);
    if (has_small_classes()) {
      set_variable(found, kAttachedKey, at);
    } else if (layout.class_attached == RubyLayout::kNone) {
      set_shape(found, kAttachedShape, at);
    } else {
      put(found + layout.class_attached, at);
    }
    return found;
  }
  // A string in a slot, its bytes in it or elsewhere.
  uint64_t add_text(const std::string& text) {
    constexpr uint64_t kLongest = 24;
    const bool has_length = !has_small_classes();
    const bool is_elsewhere = text.size() > (has_length ? kLongest - 8 : kLongest);
    const uint64_t at = add(names_, 0, RubyType::kString);
    uint64_t place = at + (has_length ? 24 : 16);
    if (is_elsewhere) {
      place = next_table(text.size());
      put(at, word(at) | kEmbedded);  // RSTRING_NOEMBED: the same bit
      put(at + 16, text.size());
      put(at + 24, place);
      put(at + 32, text.size());
    } else if (has_length) {
      put(at + 16, text.size());
    } else {
      put(at, word(at) | text.size() << 14);
    }
    target.put_bytes(Address(place), std::as_bytes(std::span(text)));
    return at;
  }
  // Where the values of variables are.
  struct VariableWords {
    uint64_t constant = 0;  // STORE
    uint64_t global = 0;    // $global0
    uint64_t of_class = 0;  // Object.@@known
  };
  // All of these hold `value`; with the tables that they and their names are found by, which are
  // objects in `page`. Object has one more constant, String, and there are more global variables.
  VariableWords add_variables(uint64_t page, uint64_t value) {
    constexpr uint64_t kString = 300;
    constexpr uint64_t kStore = 301;
    constexpr uint64_t kKnown = 302;
    constexpr uint64_t kGlobals = 310;
    constexpr uint64_t kGlobalCount = 10;
    constexpr uint64_t kLast = 400;
    const uint64_t all = add(page, 0, RubyType::kArray, kEmbedded | 1 << 15);  // of one item
    const uint64_t some = add(page, 0, RubyType::kArray);
    const uint64_t names = next_table(1024 * 8);
    put(all + 16, some);
    put(some + 16, 1024);
    put(some + 32, names);
    put(kVariables + 48, kLast);
    put(kNames, all);
    const auto name = [&](uint64_t key, const std::string& text) {
      put(names + key * 16, add_text(text));
    };
    name(kString, "String");
    name(kStore, "STORE");
    name(kKnown, "@@known");
    VariableWords words;

    const uint64_t constants = add_id_table(4);
    words.constant = add_to_id_table(constants, 1, kStore, 32) + 8;
    put(words.constant, value);
    put(add_to_id_table(constants, 2, kString, 32) + 8, string_class);
    constexpr uint64_t kTable = 40;  // of constants, in the slot of a class
    put(has_small_classes() ? word(object_class + layout.class_extension) + 16
                            : object_class + kTable,
        constants);

    const uint64_t globals = add_id_table(16);
    put(kVariables + 72, globals);
    for (uint64_t i = 0; i < kGlobalCount; ++i) {
      name(kGlobals + i, "$global" + std::to_string(i));
      const uint64_t entry = add_to_id_table(globals, i, kGlobals + i, 24);
      const uint64_t variable = next_table(64);
      put(entry, variable);
      put(entry + 8, (kGlobals + i) << 4 | 7);
      if (i != 0) continue;
      words.global = variable + 8;
      put(words.global, value);
    }

    constexpr uint64_t kKnownId = kKnown << 4 | 13;
    if (has_small_classes()) {
      words.of_class = set_variable(object_class, kKnownId, value);
    } else {
      // Behind the name, where that is among the variables.
      const bool has_name = layout.class_path == RubyLayout::kNone;
      const uint64_t path = word(word(object_class + layout.class_variables));
      set_shape_variable(kKnownShape, has_name ? kNamedShape : 0, kKnownId);
      words.of_class = set_shape(object_class, kKnownShape, has_name ? path : value);
      if (has_name) words.of_class += 8;
      put(words.of_class, value);
    }
    return words;
  }
  static constexpr uint64_t kNames = kVariables + 64;

  uint64_t next_table(uint64_t bytes) {
    const uint64_t at = kTables + tables_;
    tables_ += (bytes + 15) / 16 * 16;
    return at;
  }
  void set_page_count(uint64_t count) {
    put(layout.space_pages_data == 0 ? kSpace + layout.space_page_count : kList, count);
  }
  void set_collector(uint64_t mode) { put_int(kSpace + layout.space_flags, mode); }
  // As in the middle of a sweep: only the first `marked` slots of the page are alive.
  void leave_unswept(uint64_t page, uint64_t marked) {
    const uint64_t header = header_of(page);
    put_int(header + layout.page_flags, RubyLayout::kBeforeSweep);
    for (uint64_t i = 0; i < marked; ++i) {
      const uint64_t bit = (slot(page, i) & (kPageRoom - 1)) / RubyLayout::kLeastSlot;
      const uint64_t at = header + layout.page_mark_bits + bit / 64 * 8;
      put(at, word(at) | uint64_t{1} << bit % 64);
    }
  }

  void put(uint64_t at, uint64_t value) { target.put_word(Address(at), value); }
  void put_int(uint64_t at, uint64_t value) {
    target.put(Address(at), static_cast<uint32_t>(value));
  }
  void put_short(uint64_t at, uint64_t value) {
    target.put(Address(at), static_cast<uint16_t>(value));
  }
  uint64_t word(uint64_t at) {
    return static_cast<Target&>(target).memory().read_value<uint64_t>(Address(at)).value_or(0);
  }
  bool has_small_classes() const { return layout.class_extension != RubyLayout::kNone; }

  RuntimeModel walk() {
    RuntimeModel model;
    objects = RuntimeObjects();
    RubyWalk walk(target, place, wanted());
    walk.take(model);
    objects.slots.seal();
    return model;
  }

  // What references need goes into `objects`.
  RuntimeOptions wanted() {
    RuntimeOptions options;
    options.objects = &objects;
    return options;
  }

  FakeTarget target;
  const RubyLayout& layout;
  RubyPlace place;
  RuntimeObjects objects;
  uint64_t class_class = 0;
  uint64_t object_class = 0;
  uint64_t kernel_module = 0;
  uint64_t string_class = 0;
  uint64_t machine_class = 0;
  uint64_t self = 0;  // the object RubyVM, which leads to the state

 private:
  struct Page {
    uint64_t slot_bytes = 0;
    uint64_t used = 0;
  };

  uint64_t add_id_table(uint64_t capacity) {
    const uint64_t table = next_table(24);
    put_int(table, capacity);
    put(table + 16, next_table(capacity * 16));
    return table;
  }
  // Where the value is, which has so many bytes.
  uint64_t add_to_id_table(uint64_t table, uint64_t place, uint64_t key, uint64_t bytes) {
    const uint64_t item = word(table + 16) + place * 16;
    const uint64_t value = next_table(bytes);
    put_int(item, key);
    put(item + 8, value);
    return value;
  }
  void set_shape_variable(uint64_t number, uint64_t parent, uint64_t id) {
    const uint64_t shape = kShapes + number * layout.shape_bytes;
    put(shape + layout.shape_edge, id);
    put_int(shape + layout.shape_parent, parent);
    target.put(Address(shape + layout.shape_type), uint8_t{1});
  }
  // Makes `first` the first variable of a class, which has room for two: gives where it is.
  uint64_t set_shape(uint64_t at, uint64_t number, uint64_t first) {
    const uint64_t values = next_table(16);
    put_int(at + 4, number);
    put(at + layout.class_variables, values);
    put(values, first);
    return values;
  }
  // Adds to the variables of a class: gives where the value is.
  uint64_t set_variable(uint64_t at, uint64_t key, uint64_t value) {
    constexpr uint64_t kMost = 4;
    const uint64_t extension = word(at + layout.class_extension);
    uint64_t table = word(extension + layout.class_variables);
    if (table == 0) {
      table = next_table(56);
      put(extension + layout.class_variables, table);
      put(table + 48, next_table(kMost * 24));
    }
    const uint64_t count = word(table + 40);
    const uint64_t entry = word(table + 48) + count * 24;
    put(entry + 8, key);
    put(entry + 16, value);
    put(table + 40, count + 1);
    return entry + 16;
  }

  uint64_t classes_ = 0;
  uint64_t names_ = 0;
  uint64_t tables_ = 0;
  std::vector<Page> pages_;
};

}  // namespace heapsnap::test
