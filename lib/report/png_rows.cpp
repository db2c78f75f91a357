#include "report/png_rows.h"

#include <png.h>

#include <csetjmp>

#include "base/error.h"

namespace heapsnap {

struct PngRows::State {
  png_structp png = nullptr;
  png_infop info = nullptr;
  std::string encoded;  // not written yet
  std::string failure;

  ~State() { png_destroy_write_struct(&png, &info); }
};

namespace {

// libpng is C: neither this nor the function below may throw through it.
void note_failure(png_structp png, png_const_charp message) noexcept {
  static_cast<std::string*>(png_get_error_ptr(png))->assign(message);
  png_longjmp(png, 1);
}

void note_warning(png_structp /*png*/, png_const_charp /*message*/) noexcept {}

void take_bytes(png_structp png, png_bytep bytes, png_size_t size) noexcept {
  static_cast<std::string*>(png_get_io_ptr(png))
      ->append(reinterpret_cast<const char*>(bytes), size);
}

// Calls `work`, which has nothing to destroy, with a place for libpng to jump to.
template <typename Work>
void guarded(png_structp png, const std::string& failure, Work work) {
  if (setjmp(png_jmpbuf(png)) != 0) {
    throw Error(ErrorKind::kOutput, "cannot make the picture", failure);
  }
  work();
}

}  // namespace

PngRows::PngRows(unsigned width, unsigned height, std::span<const Paint> palette,
                 const Texts& texts, Writer& out)
    : state_(std::make_unique<State>()), out_(out) {
  State& state = *state_;
  state.png =
      png_create_write_struct(PNG_LIBPNG_VER_STRING, &state.failure, note_failure, note_warning);
  if (state.png != nullptr) state.info = png_create_info_struct(state.png);
  if (state.info == nullptr) {
    throw Error(ErrorKind::kOutput, "cannot make the picture", "libpng has no memory");
  }
  png_set_write_fn(state.png, &state.encoded, take_bytes, nullptr);
  std::vector<png_text> entries;
  for (const auto& [keyword, text] : texts) {
    png_text entry{};
    entry.compression = PNG_ITXT_COMPRESSION_NONE;
    // libpng copies them, and changes none.
    entry.key = const_cast<png_charp>(keyword.c_str());
    entry.text = const_cast<png_charp>(text.c_str());
    entry.itxt_length = text.size();
    entries.push_back(entry);
  }
  std::vector<png_color> colors;
  for (const Paint& paint : palette) colors.push_back({paint.red, paint.green, paint.blue});
  guarded(state.png, state.failure, [&] {
    png_set_IHDR(state.png, state.info, width, height, 8, PNG_COLOR_TYPE_PALETTE,
                 PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
    // Rows of squares repeat: what deflate finds by itself is more than filters would leave it.
    png_set_filter(state.png, PNG_FILTER_TYPE_BASE, PNG_FILTER_NONE);
    png_set_PLTE(state.png, state.info, colors.data(), static_cast<int>(colors.size()));
    png_set_text(state.png, state.info, entries.data(), static_cast<int>(entries.size()));
    png_write_info(state.png, state.info);
  });
  flush();
}

PngRows::~PngRows() = default;

void PngRows::add(std::span<const uint8_t> row) {
  guarded(state_->png, state_->failure, [&] { png_write_row(state_->png, row.data()); });
  flush();
}

void PngRows::finish() {
  guarded(state_->png, state_->failure, [&] { png_write_end(state_->png, state_->info); });
  flush();
}

void PngRows::flush() {
  out_.write(state_->encoded);
  state_->encoded.clear();
}

}  // namespace heapsnap
