// A unit before layout_fixture.c, with another struct by a name of its.
struct fixture_plain {
  char only;
};
struct fixture_plain fixture_other_plain;

int fixture_first_code(void) {
  return fixture_other_plain.only;
}
