#include "core/sha256.hpp"

#include <gtest/gtest.h>

#include "core/error.hpp"

#include <utility>

namespace orrery {
namespace {

// The examples of FIPS 180-4.
constexpr const char* kEmpty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
constexpr const char* kAbc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

TEST(Sha256, KnownDigests) {
  EXPECT_EQ(sha256_hex(""), kEmpty);
  EXPECT_EQ(sha256_hex("abc"), kAbc);
  EXPECT_EQ(sha256_hex("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
}

TEST(Sha256, PiecesEqualTheWhole) {
  Sha256 hash;
  EXPECT_EQ(hash.hex(), kEmpty);
  hash.update("a");
  EXPECT_EQ(hash.hex(), sha256_hex("a"));
  hash.update("bc");
  EXPECT_EQ(hash.hex(), kAbc);
  EXPECT_EQ(hash.hex(), kAbc);
}

TEST(Sha256, ZeroBytesCount) {
  EXPECT_NE(sha256_hex(std::string("a\0b", 3)), sha256_hex("a"));
}

TEST(Sha256, GoesOnFromItsStateInAnother) {
  for (const std::size_t before : {0, 1, 63, 64, 65, 200}) {
    Sha256 first, second;
    first.update(std::string(before, 'x'));
    second.update("what it had before is gone");
    second.restore_state(first.state());
    second.update("abc");
    EXPECT_EQ(second.hex(), sha256_hex(std::string(before, 'x') + "abc"));
  }
  Sha256 hash;
  EXPECT_THROW(hash.restore_state("too short"), Error);
}

TEST(Sha256, MovesWithItsState) {
  Sha256 first;
  first.update("ab");
  Sha256 second = std::move(first);
  second.update("c");
  EXPECT_EQ(second.hex(), kAbc);
}

}  // namespace
}  // namespace orrery
