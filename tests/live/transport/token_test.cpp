#include "live/transport/token.hpp"

#include <gtest/gtest.h>

namespace orrery::live {
namespace {

TEST(Token, IsLongAndNeverTheSame) {
  EXPECT_EQ(make_token().size(), 32u);
  EXPECT_NE(make_token(), make_token());
}

TEST(Token, EqualsOnlyItself) {
  const std::string token = make_token();
  EXPECT_TRUE(same_token(token, std::string(token)));
  EXPECT_FALSE(same_token(token, token.substr(1)));
  EXPECT_FALSE(same_token(token, ""));
  std::string other = token;
  other.back() = static_cast<char>(other.back() ^ 1);
  EXPECT_FALSE(same_token(token, other));
}

}  // namespace
}  // namespace orrery::live
