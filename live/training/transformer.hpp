// `builtin: transformer`: a small byte-level decoder transformer that live mode really trains.
// RMS norm before each part (Zhang and Sennrich, arXiv:1910.07467), causal attention with rotary
// positions (Su et al., arXiv:2104.09864), gated MLP (Shazeer, arXiv:2002.05202), an output
// projection of its own, no biases. Sizes: BuiltinTransformer in traces/training/model.hpp. Forward
// and backward are written out, Eigen does the matrix products; columns are positions. One thread
// per object.
#pragma once

#include "live/training/network.hpp"

namespace orrery::live {

template <class T>
class Transformer : public Network<T> {
 public:
  explicit Transformer(Rng rng);
  ~Transformer() override;
  double accumulate(const Batch& batch) override;
  double loss(const Batch& batch) const override;

 private:
  struct Layer;  // what one layer keeps for the backward pass
  struct Pass;   // what all of them and both ends keep
  double forward(const Batch& batch, Pass& pass) const;
  void forward(std::size_t layer, Layer& kept, Matrix<T>& x, const Pass& pass) const;
  /// `delta` is the gradient of the layer's output, then of its input.
  void backward(std::size_t layer, const Layer& kept, Matrix<T>& delta, const Pass& pass);
  void attend(Layer& kept, const Pass& pass) const;
  void attend_backward(const Layer& kept, const Matrix<T>& delta, Matrix<T>& delta_qkv,
                       const Pass& pass) const;
};

extern template class Transformer<float>;
extern template class Transformer<double>;

}  // namespace orrery::live
