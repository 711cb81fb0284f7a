// Decoder transformer as a model file describes it: the model that the step prices, and the
// parameters that this model leaves out, such as biases, further norms and tables of positions.
// Filled by the readers of model files. Pure functions; thread-safe. Sizes are numbers of
// parameters.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "traces/scenario.pb.h"

namespace orrery {

/// Norms of the heads' queries and keys.
enum class HeadNorm : std::uint8_t {
  none,
  shared,  ///< one vector of a head's size each, for all heads
  whole,   ///< a value for each value of all heads
};

/// Parameters of a decoder besides its matrices.
struct SmallParameters {
  double norm_values = 1;  ///< 0: a norm has no parameters; 1: scale; 2: scale and shift
  double layer_norms = 2;  ///< norms of a layer, over `hidden`
  bool final_norm = true;
  bool embedding_norm = false;
  HeadNorm head_norm = HeadNorm::none;
  double head_norm_values = 1;                                     ///< 1: scale; 2: scale and shift
  bool query_bias = false, output_bias = false, mlp_bias = false;  ///< biases of products
  bool router_bias = false, expert_bias = false, vocabulary_bias = false;
  bool sinks = false;         ///< one value for each head
  bool shared_gate = false;   ///< one vector over `hidden` for each layer with shared experts
  double activation = 0;      ///< values of a layer's activation function
  double positions = 0;       ///< rows of a table of learned positions
  double embedding_size = 0;  ///< size of a row of the embedding, if not `hidden`
  double shared_inner = 0;    ///< inner size of all shared experts of a layer together
};

/// Decoder of a model file.
struct Decoder {
  std::string family;  ///< name of the family as its files write it, such as "llama"
  Model model;         ///< resolved
  SmallParameters small;
  std::vector<std::string> assumed;  ///< differences between the file's model and `model`
};

/// Number of parameters by owner.
struct ParameterCounts {
  double embedding = 0;  ///< tables of tokens and positions
  double output = 0;     ///< projection to the vocabulary; 0 if tied
  double attention = 0;
  double mlp = 0;  ///< MLPs of layers without experts
  double router = 0, experts = 0, shared_experts = 0;
  double norms = 0;
  double biases = 0;  ///< all vectors but the norms

  double total() const {
    return embedding + output + attention + mlp + router + experts + shared_experts + norms +
           biases;
  }
};

/// Returns the parameters of a decoder by owner. `decoder.model` must have its sizes.
ParameterCounts count_parameters(const Decoder& decoder);

/// Resolves the model. Throws bad_input at the begin of the file for sizes that do not fit
/// together.
void finish_decoder(Decoder& decoder, const std::string& file);

}  // namespace orrery
