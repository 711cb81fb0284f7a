// `builtin: transformer`: a small byte-level decoder transformer that live mode trains. RMS norm
// before each part (Zhang and Sennrich, arXiv:1910.07467), causal attention with rotary positions
// (Su et al., arXiv:2104.09864), gated MLP (Shazeer, arXiv:2002.05202), a separate output
// projection, no biases. Sizes: BuiltinTransformer in traces/workload/model.hpp. Forward and
// backward are written out, Eigen computes the matrix products; columns are positions. One thread
// for each object.
#pragma once

#include "live/training/network.hpp"

namespace orrery::live {

/// Byte-level decoder transformer.
template <class T>
class Transformer : public Network<T> {
 public:
  /// Draws the parameters from `rng`; the gains of the norms are 1.
  explicit Transformer(Rng rng);
  ~Transformer() override;
  /// Runs as in Network; a sequence must be longer than one byte.
  double accumulate_gradient(const Batch& batch) override;
  double loss(const Batch& batch) const override;

 private:
  /// Values of one layer for the backward pass.
  struct Layer;
  /// Values of all layers and both ends.
  struct Pass;
  double forward(const Batch& batch, Pass& pass) const;
  void forward(std::size_t layer, Layer& kept, Matrix<T>& x, const Pass& pass) const;
  /// Runs the backward pass of a layer: `delta` is the gradient of the layer's output, then of its
  /// input.
  void backward(std::size_t layer, const Layer& kept, Matrix<T>& delta, const Pass& pass);
  void compute_attention(Layer& kept, const Pass& pass) const;
  void attend_backward(const Layer& kept, const Matrix<T>& delta, Matrix<T>& delta_qkv,
                       const Pass& pass) const;
};

extern template class Transformer<float>;
extern template class Transformer<double>;

}  // namespace orrery::live
