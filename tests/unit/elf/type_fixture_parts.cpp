namespace fixture {

class Declared {
 public:
  long numbers[6];
  Declared* next;
};

Declared g_declared;

}  // namespace fixture
