// Which words of the name of a type or function are the program's own: those that neither the
// language has nor its standard libraries.
#pragma once

#include <string_view>

namespace heapsnap {

// Of a word with the namespaces before it: "shop::Session", and neither "std::map" nor "const".
bool is_program_word(std::string_view word);

// "std::vector<shop::Session>"
bool has_program_word(std::string_view name);

}  // namespace heapsnap
