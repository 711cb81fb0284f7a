#include "live/training/token_gather.hpp"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "live/training/text.hpp"

namespace orrery::live {
namespace {

std::vector<std::uint8_t> bytes_of(const std::string& text) { return {text.begin(), text.end()}; }

TEST(TokenGather, NamesEveryDistinctTokenOnceAndFindsEachUseAgain) {
  const auto tokens = bytes_of("banana");
  const TokenGather gather(tokens);
  EXPECT_EQ(std::string(gather.rows().begin(), gather.rows().end()), "abn");
  ASSERT_EQ(gather.slots().size(), tokens.size());
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    EXPECT_EQ(gather.rows()[gather.slots()[i]], tokens[i]);
  }
}

TEST(TokenGather, AllByteValuesHaveASlot) {
  std::vector<std::uint8_t> all;
  for (int i = 255; i >= 0; --i) all.push_back(static_cast<std::uint8_t>(i));
  const TokenGather gather(all);
  EXPECT_EQ(gather.rows().size(), 256u);
  EXPECT_EQ(gather.slots()[0], 255);
}

TEST(TokenGather, RowsGoOutAndTheirGradientsComeBack) {
  Eigen::MatrixXd table = Eigen::MatrixXd::Random(3, 256);
  const TokenGather gather(bytes_of("cab"));
  const Eigen::MatrixXd rows = gather_rows<double>(table, gather);
  EXPECT_EQ(rows.cols(), 3);
  EXPECT_EQ(rows.col(gather.slots()[0]), table.col('c'));
  Eigen::MatrixXd gradient = Eigen::MatrixXd::Zero(3, 256);
  scatter_rows<double>(rows, gather, gradient);
  EXPECT_EQ(gradient.col('a'), table.col('a'));
  EXPECT_EQ(gradient.col('d').norm(), 0);
}

TEST(TokenGather, RealTextRepeatsItself) {
  const Text text = Text::load(ORRERY_SOURCE_DIR "/LICENSE");
  std::size_t used = 0, read = 0;
  for (Step step = 0; step < 20; ++step) {
    const auto tokens = text.sample(1, step, 0, 4, 64);
    used += tokens.size();
    read += TokenGather(tokens).rows().size();
  }
  EXPECT_LT(static_cast<double>(read), 0.3 * static_cast<double>(used));
}

}  // namespace
}  // namespace orrery::live
