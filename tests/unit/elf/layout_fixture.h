/* Structs whose layouts struct_layout_test.cpp reads back from the DWARF of layout_fixture.c. */
#pragma once

#include <stddef.h>

struct fixture_plain {
  char letter;
  int number;
  struct fixture_plain* next;
  const volatile long matrix[3][4];
  short* pointers[5];
  char flexible[];
};

struct fixture_nested {
  int before;
  struct {
    int inner;
    union {
      long as_long;
      char as_bytes[16];
    };
  };
  struct fixture_plain* named;
  unsigned low : 3, high : 5;
};

typedef struct {
  double value;
  char text[7];
} fixture_alias;

struct fixture_declared_only;
