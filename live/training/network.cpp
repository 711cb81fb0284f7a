#include "live/training/network.hpp"

#include <cmath>

#include "core/error.hpp"
#include "live/training/model.hpp"
#include "live/training/transformer.hpp"
#include "traces/workload/job_choices.hpp"

namespace orrery::live {

template <class T>
double softmax_loss(Matrix<T>& logits, std::span<const std::uint8_t> targets) {
  double loss = 0;
  for (Eigen::Index column = 0; column < logits.cols(); ++column) {
    auto values = logits.col(column);
    values.array() -= values.maxCoeff();
    const T target = values(targets[static_cast<std::size_t>(column)]);
    values = values.array().exp().matrix();
    const T sum = values.sum();
    values /= sum;
    loss += std::log(static_cast<double>(sum)) - static_cast<double>(target);
  }
  return loss;
}

template double softmax_loss(Matrix<float>&, std::span<const std::uint8_t>);
template double softmax_loss(Matrix<double>&, std::span<const std::uint8_t>);

std::unique_ptr<Network<float>> make_network(const std::string& builtin, Rng rng) {
  const std::optional<BuiltinKind> kind = find_named<BuiltinKind>(builtin);
  if (kind == BuiltinKind::language_model) {
    return std::make_unique<LanguageModel<float>>(std::move(rng));
  }
  if (kind == BuiltinKind::transformer) return std::make_unique<Transformer<float>>(std::move(rng));
  throw Error(ErrorKind::bad_input, "there is no built-in model '" + builtin + "'");
}

}  // namespace orrery::live
