// Letters for pictures: 9 by 15 pixels each, of ASCII and a few characters that names are shortened
// and marked with.
//
// The letters are those of the X Window System's font 9x15 (misc-fixed), which is in the public
// domain.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace heapsnap {

inline constexpr int kGlyphWidth = 9;
inline constexpr int kGlyphHeight = 15;

// The rows from top to bottom, nine bits each, the leftmost pixel the highest.
using GlyphRows = std::array<uint16_t, kGlyphHeight>;

// A frame for a character that the font does not have.
GlyphRows glyph_rows(char32_t character);

}  // namespace heapsnap
