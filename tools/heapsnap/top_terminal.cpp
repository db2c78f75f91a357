#include "tools/heapsnap/top_terminal.h"

// Declares functions, not macros of the same names.
#define NCURSES_NOMACROS 1
#define NCURSES_WIDECHAR 1
#include <curses.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <clocale>
#include <cstdlib>
#include <cwchar>
#include <iterator>

#include "base/error.h"

namespace heapsnap {

namespace {

constexpr int kEscapeDelayMs = 25;
constexpr wint_t kEscape = 27;
constexpr wint_t kDelete = 127;
constexpr wint_t kBackspace = 8;
// Calls in a row that say there is input, and have none: the terminal is gone.
constexpr int kMostEmptyReads = 100;

// curses sets handlers for these, of which EndingSignals knows nothing.
constexpr std::array kTakenSignals{SIGINT, SIGTERM};

void leave_to_ending_signals(int /*signal*/) {}

// While newterm() looks, SIGTSTP has a handler, as a program has that stops by itself: curses then
// never touches it. Else it ignores SIGTSTP while it draws, and to ignore a signal is to discard
// the one that is pending: a stop that EndingSignals has not taken yet would be lost.
class OwnStop {
 public:
  OwnStop() {
    struct sigaction own {};
    own.sa_handler = leave_to_ending_signals;
    ::sigaction(SIGTSTP, nullptr, &before_);
    if (before_.sa_handler == SIG_DFL) ::sigaction(SIGTSTP, &own, nullptr);
  }
  OwnStop(const OwnStop&) = delete;
  OwnStop& operator=(const OwnStop&) = delete;
  ~OwnStop() { ::sigaction(SIGTSTP, &before_, nullptr); }

 private:
  struct sigaction before_ {};
};

struct NamedKey {
  wint_t code;
  TopKey key;
};
constexpr NamedKey kFunctionKeys[] = {
    {KEY_UP, TopKey::kUp},           {KEY_DOWN, TopKey::kDown},   {KEY_PPAGE, TopKey::kPageUp},
    {KEY_NPAGE, TopKey::kPageDown},  {KEY_HOME, TopKey::kHome},   {KEY_END, TopKey::kEnd},
    {KEY_BACKSPACE, TopKey::kErase}, {KEY_DC, TopKey::kErase},    {KEY_ENTER, TopKey::kOpen},
    {KEY_F(1), TopKey::kHelp},       {KEY_F(4), TopKey::kFilter}, {KEY_F(5), TopKey::kView},
    {KEY_F(6), TopKey::kSort},       {KEY_F(10), TopKey::kQuit}};
constexpr NamedKey kLetters[] = {
    {'q', TopKey::kQuit},     {'p', TopKey::kPause},  {' ', TopKey::kPause}, {'s', TopKey::kSort},
    {'r', TopKey::kReverse},  {'/', TopKey::kFilter}, {'h', TopKey::kHelp},  {'?', TopKey::kHelp},
    {'w', TopKey::kSnapshot}, {'k', TopKey::kUp},     {'j', TopKey::kDown},  {'g', TopKey::kHome},
    {'G', TopKey::kEnd}};
constexpr NamedKey kControls[] = {{kEscape, TopKey::kBack},  {'\t', TopKey::kView},
                                  {'\r', TopKey::kOpen},     {'\n', TopKey::kOpen},
                                  {kDelete, TopKey::kErase}, {kBackspace, TopKey::kErase}};

template <size_t N>
std::optional<TopKey> named(const NamedKey (&keys)[N], wint_t code) {
  const auto* const found = std::find_if(std::begin(keys), std::end(keys),
                                         [code](const NamedKey& key) { return key.code == code; });
  return found == std::end(keys) ? std::nullopt : std::optional(found->key);
}

std::string utf8_of(wint_t character) {
  std::array<char, MB_LEN_MAX> bytes{};
  std::mbstate_t state{};
  const size_t count = std::wcrtomb(bytes.data(), static_cast<wchar_t>(character), &state);
  return count == static_cast<size_t>(-1) ? std::string() : std::string(bytes.data(), count);
}

attr_t attributes_of(TopStyle style) {
  switch (style) {
    case TopStyle::kBold: return A_BOLD;
    case TopStyle::kDim: return A_DIM;
    case TopStyle::kReverse: return A_REVERSE;
    case TopStyle::kPlain: break;
  }
  return A_NORMAL;
}

std::optional<TopPress> press_of(bool is_function_key, wint_t code, bool is_typing) {
  if (is_function_key) {
    const auto key = named(kFunctionKeys, code);
    return key ? std::optional(TopPress{*key, {}}) : std::nullopt;
  }
  if (const auto key = named(kControls, code)) return TopPress{*key, {}};
  if (!is_typing) {
    const auto key = named(kLetters, code);
    return key ? std::optional(TopPress{*key, {}}) : std::nullopt;
  }
  if (code < ' ') return std::nullopt;
  return TopPress{TopKey::kText, utf8_of(code)};
}

}  // namespace

struct TopTerminal::State {
  SCREEN* screen = nullptr;
  int empty_reads = 0;
};

TopTerminal::TopTerminal() : state_(std::make_unique<State>()) {
  // What heapsnap prints is UTF-8 whatever the locale.
  std::setlocale(LC_CTYPE, "C.UTF-8");
  std::array<struct sigaction, kTakenSignals.size()> before{};
  for (size_t i = 0; i < before.size(); ++i) ::sigaction(kTakenSignals[i], nullptr, &before[i]);
  {
    const OwnStop own;
    state_->screen = ::newterm(nullptr, stdout, stdin);
  }
  for (size_t i = 0; i < before.size(); ++i) ::sigaction(kTakenSignals[i], &before[i], nullptr);
  const char* const name = std::getenv("TERM");
  const char* const moves = state_->screen == nullptr ? nullptr : ::tigetstr("cup");
  if (moves == nullptr || moves == reinterpret_cast<const char*>(-1)) {
    if (state_->screen != nullptr) {
      ::endwin();
      ::delscreen(state_->screen);
    }
    throw Error(ErrorKind::kUnsupported, "heapsnap top",
                std::string("this terminal cannot move its cursor, or is not known: TERM is ") +
                    (name == nullptr ? "not set" : name),
                "set TERM to what the terminal is, for example: TERM=xterm; or use heapsnap watch, "
                "which prints lines");
  }
  ::set_escdelay(kEscapeDelayMs);
  ::cbreak();
  ::noecho();
  ::nonl();
  ::keypad(stdscr, true);
  ::nodelay(stdscr, true);
  ::curs_set(0);
}

TopTerminal::~TopTerminal() {
  ::endwin();
  ::delscreen(state_->screen);
}

size_t TopTerminal::width() const {
  return static_cast<size_t>(std::max(1, ::getmaxx(stdscr)));
}

size_t TopTerminal::height() const {
  return static_cast<size_t>(std::max(1, ::getmaxy(stdscr)));
}

void TopTerminal::show(std::span<const TopLine> lines) {
  ::werase(stdscr);
  const size_t count = std::min(lines.size(), height());
  for (size_t row = 0; row < count; ++row) {
    ::wattrset(stdscr, static_cast<int>(attributes_of(lines[row].style)));
    ::mvwaddstr(stdscr, static_cast<int>(row), 0, lines[row].text.c_str());
  }
  ::wattrset(stdscr, static_cast<int>(A_NORMAL));
  ::wrefresh(stdscr);
}

std::optional<TopPress> TopTerminal::wait(std::chrono::milliseconds patience, bool is_typing) {
  pollfd input{STDIN_FILENO, POLLIN, 0};
  const int ready = ::poll(&input, 1, static_cast<int>(patience.count()));
  if (ready > 0 && (input.revents & (POLLHUP | POLLERR | POLLNVAL)) != 0) {
    return TopPress{TopKey::kQuit, {}};
  }
  // Also after a signal: that the terminal has another size is a key as well.
  wint_t code = 0;
  const int got = ::wget_wch(stdscr, &code);
  if (got == ERR) {
    state_->empty_reads = ready > 0 ? state_->empty_reads + 1 : 0;
    if (state_->empty_reads > kMostEmptyReads) return TopPress{TopKey::kQuit, {}};
    return std::nullopt;
  }
  state_->empty_reads = 0;
  return press_of(got == KEY_CODE_YES, code, is_typing);
}

void TopTerminal::suspend() {
  ::endwin();
}

void TopTerminal::resume() {
  ::clearok(stdscr, true);
  ::wrefresh(stdscr);
}

}  // namespace heapsnap
