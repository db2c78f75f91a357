// Has one thread, which takes memory by sbrk(2) beside malloc, and finds out whether somebody else
// gets the same memory. Says "ready", ends when its standard input does, and then says
//
//   errors=0 pieces=123
//
// It gives nothing back, and takes a limited number of pieces.
#include <malloc.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { kPieceSize = 64, kTogether = 64, kMost = 4 << 20, kLargestBlock = 2048 };

struct Piece {
  long number;
  char filler[kPieceSize - sizeof(long)];
};

static long errors;

static struct Piece* take_piece(long number) {
  struct Piece* const piece = sbrk(sizeof *piece);
  if (piece == (void*)-1) {
    ++errors;
    return NULL;
  }
  // New memory is all zero.
  for (size_t i = 0; i < sizeof piece->filler; ++i) errors += piece->filler[i] != 0;
  memset(piece->filler, 0x5c, sizeof piece->filler);
  piece->number = number;
  return piece;
}

static void check_piece(const struct Piece* piece, long number) {
  if (piece == NULL) return;
  errors += piece->number != number;
  for (size_t i = 0; i < sizeof piece->filler; ++i) errors += piece->filler[i] != 0x5c;
}

static int is_over(int patience) {
  struct pollfd input = {0, POLLIN, 0};
  return poll(&input, 1, patience) != 0;
}

int main(void) {
  static struct Piece* pieces[kTogether];
  long taken = 0;
  mallopt(M_TOP_PAD, 0);
  setvbuf(stdout, NULL, _IOLBF, 0);
  puts("ready");
  while (taken < kMost && !is_over(0)) {
    for (int i = 0; i < kTogether; ++i) pieces[i] = take_piece(taken + i);
    for (int i = 0; i < kTogether; ++i) check_piece(pieces[i], taken + i);
    taken += kTogether;
    // Uses up what is free, so that whoever allocates next needs more from sbrk(2).
    for (size_t size = 16; size <= kLargestBlock; size *= 2) {
      char* const block = malloc(size);
      if (block == NULL) return 2;
      memset(block, 1, size);
    }
  }
  while (!is_over(-1)) {
  }
  printf("errors=%ld pieces=%ld\n", errors, taken);
  return errors != 0;
}
