// What runs in Ruby's frames: methods, blocks, files, and the names of their local variables.
//
//   rb_iseq_t ──►  struct rb_iseq_constant_body
//                  | label, path                    "block in handle", "/srv/app.rb"
//                  | local_table ──►  | ID | ID | ...
//                  | iseq_encoded ──► | word | word | ...         a frame's pc leads there
//                  | insns_info: body ──►  | line | ... | line | ...
//                                index: how many entries begin up to a word of the code
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "runtime/ruby/ruby_classes.h"
#include "runtime/ruby/ruby_constants.h"
#include "runtime/ruby/ruby_layout.h"
#include "target/page_cache.h"
#include "target/target.h"

namespace heapsnap {

struct RubyFunction {
  std::string name;                 // "handle()", "block in handle()", "<main>"
  std::string file;                 // its name, without folders
  std::vector<std::string> locals;  // empty: none that a program can name
  Address code;
  uint64_t code_words = 0;
  Address lines;
  uint64_t line_count = 0;
  Address line_index;
};

class RubyFunctions {
 public:
  // All outlive it.
  RubyFunctions(Target& target, const RubyLayout& layout, RubyClasses& classes,
                RubyConstants& constants)
      : layout_(layout), classes_(classes), constants_(constants), cache_(target.memory()) {}

  // Of a frame's iseq; null where that is none (a function in C has none). The pointer stays.
  const RubyFunction* find(uint64_t iseq);
  // The line that runs, of a frame's pc; 0: not known.
  uint32_t line(const RubyFunction& function, uint64_t pc);

 private:
  static constexpr size_t kMostFunctions = 1 << 18;

  std::optional<RubyFunction> read(uint64_t iseq);
  std::optional<std::string> file_of(uint64_t path);
  std::string local_of(uint64_t id);

  const RubyLayout& layout_;
  RubyClasses& classes_;
  RubyConstants& constants_;
  PageCache cache_;
  std::unordered_map<uint64_t, std::unique_ptr<RubyFunction>> known_;  // null: none
  uint64_t name_bytes_ = 1 << 26;  // of names of locals, to keep
};

}  // namespace heapsnap
