// Names of functions in few columns, without losing what tells them apart.
//
// What says least goes first:
//
//   void std::vector<int, A>::_M_insert<int>(int*, int&&) const
//   std::vector<…>::_M_insert<…>(int*, int&&)     return type, template arguments
//   std::vector<…>::_M_insert<…>(…)               parameters
//   std::vector::_M_insert(…)
//   std::…::_M_insert                             the middle of the namespaces
//   _M_insert
//   _M_…ert                                       and only then letters
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace heapsnap {

// `function`: made by printable(). At most `width` columns.
std::string fitted_name(std::string_view function, size_t width);

// The same for all names on a screen, so that different ones stay different: those with the same
// short form show the part in which they differ, or a number if there is no room for it.
std::vector<std::string> fitted_names(const std::vector<std::string>& functions, size_t width);

}  // namespace heapsnap
