#include "live/training/network.hpp"

#include <cmath>
#include <string>

#include <gtest/gtest.h>

#include "core/error.hpp"
#include "traces/workload/model.hpp"

namespace orrery::live {
namespace {

TEST(Network, EveryBuiltinHasTheParametersThatTheSimulatorPrices) {
  for (const char* name : {"language-model", "transformer"}) {
    const auto network = make_network(name, Rng(1));
    EXPECT_EQ(network->parameters().size(), builtin_cost(name, 64).parameters) << name;
    EXPECT_EQ(network->gradient().size(), network->parameters().size()) << name;
  }
}

TEST(Network, TensorsTileTheVectorInTheOrderOfTheirNames) {
  for (const char* name : {"language-model", "transformer"}) {
    const auto network = make_network(name, Rng(1));
    std::string before;
    std::size_t at = 0;
    for (const Tensor& tensor : network->tensors()) {
      EXPECT_LT(before, tensor.name);
      EXPECT_EQ(tensor.offset, at) << tensor.name;
      before = tensor.name;
      at += tensor.size();
    }
    EXPECT_EQ(at, network->parameters().size()) << name;
  }
}

TEST(Network, AnUnknownNameIsRefused) {
  EXPECT_THROW(make_network("mystery", Rng(1)), Error);
  EXPECT_THROW(builtin_cost("mystery", 64), Error);
}

TEST(Network, ABatchWithoutBytesIsRefused) {
  const std::vector<std::uint8_t> nothing;
  for (const char* name : {"language-model", "transformer"}) {
    EXPECT_THROW(make_network(name, Rng(1))->loss({nothing, 2}), Error) << name;
  }
}

TEST(Network, SoftmaxLossIsTheNegativeLogOfTheTarget) {
  Matrix<double> logits(256, 2);
  logits.setZero();
  logits(7, 1) = 3;
  const std::uint8_t targets[] = {1, 7};
  const double expected = std::log(256.0) + std::log(255 + std::exp(3.0)) - 3;
  EXPECT_NEAR(softmax_loss<double>(logits, targets), expected, 1e-12);
  EXPECT_NEAR(logits.col(1).sum(), 1, 1e-12);
  EXPECT_NEAR(logits(7, 1), std::exp(3.0) / (255 + std::exp(3.0)), 1e-12);
}

}  // namespace
}  // namespace orrery::live
