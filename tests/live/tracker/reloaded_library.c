/* Built twice, with frames of different sizes at the same addresses: the size is in an operand of
 * the same length. */
void call_back(void (*function)(unsigned), unsigned argument) {
  volatile char room[FRAME_WORDS * 8];
  room[0] = 1;
  function(argument);
  room[1] = room[0];
}
