// Parses names of functions, and makes names for functions that have none.
//
//   void  std::vector<int, A>::_M_insert<int>(int*, int&&)   const [clone .cold]
//   type  path, with template arguments and parameters       suffix
//
// Names come from the target's files, so they may hold anything; demangled() bounds their length.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tracking/tracker_record.h"

namespace heapsnap {

// Names the code at the ELF entry point of a program or of ld.so if no symbol does.
inline constexpr std::string_view kEntryPointName = "<entry point>";

// "git+0x1a2b0()": the function that starts at this address of the module's file.
std::string name_of_start(std::string_view module_label, uint64_t begin);
// Whether `function` is such a made-up name.
bool is_name_of_start(std::string_view function);

// The label of each module in such names: its file name, preceded by as many folders as distinguish
// it from modules with other paths; "program" if the path is not known.
std::vector<std::string> module_labels(const std::vector<TrackedModule>& modules);

struct NamePiece {
  enum class Kind : uint8_t {
    kText,
    kTemplateArguments,  // with its brackets
    kParameters,         // with its parentheses
  };
  Kind kind = Kind::kText;
  std::string_view text;
  bool operator==(const NamePiece&) const = default;
};

// Views of the parsed name, in its order; blanks between them and ABI tags ("[abi:cxx11]") are left
// out.
struct NameParts {
  std::string_view type;  // the return type, or "guard variable for"
  std::vector<NamePiece> path;
  std::string_view suffix;  // "const", "[clone .part.0]"
};
NameParts parts_of_name(std::string_view function);

// The path without template arguments, parameters, anonymous namespaces and the suffixes that
// compilers append to clones: "std::vector::_M_insert", "operator new", "xmalloc".
std::string plain_name(std::string_view function);

}  // namespace heapsnap
