// How local variables of the functions of a language runtime that run are called:
//
//   orders in handle() at app.py:42
//   ^ variable ^ function ^ file and the line that runs
//
// Also what it has no variable for: "a temporary in handle() at app.py:42".
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace heapsnap {

struct LocalName {
  std::string_view variable;
  std::string_view function;  // as it is shown: "handle()"
  std::string_view file;      // its name, without folders
  uint32_t line = 0;          // 0: not known
};

// Leaves out what is empty.
std::string local_name(const LocalName& parts);

inline constexpr std::string_view kTemporary = "a temporary";
inline constexpr std::string_view kPerhapsTemporary = "perhaps a temporary";  // or left over
// Either of them.
bool is_temporary(std::string_view name);
bool may_be_left_over(std::string_view name);

// The parts of such a name, of any text: what is not there is empty.
LocalName split_local(std::string_view name);

// "orders in handle() at app.py": what stays the same while the function runs on.
std::string_view local_without_line(std::string_view name);

// "handle() at app.py:42": what the variables of one call have in common; of another text, nothing.
std::string_view call_of_local(std::string_view name);

}  // namespace heapsnap
