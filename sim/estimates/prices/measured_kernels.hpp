// Kernels and collectives of one node, priced by the times measured on it. Used by the cost model
// in place of its own prices; created from the file of `orrery calibrate --kernels`. Immutable;
// thread-safe. Seconds, bytes.
//
// A product or an attention whose shape was measured takes the measured time. Any other takes the
// cost model's time times a factor: the weighted geometric mean of measured over modelled times of
// the four nearest measured shapes, with weights 1 / d^2 in the logarithms of their dimensions. For
// example, a shape half-way between two shapes that took 1.1 and 1.3 times their modelled times
// takes 1.2 times its own.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/units.hpp"
#include "topologies/cluster.hpp"
#include "topologies/kernels.pb.h"
#include "traces/workload/step_graph.hpp"

namespace orrery::estimates {

/// Price list of one node's own measurements.
class MeasuredKernels {
 public:
  /// Returns the cost model's time of a kernel.
  using Model = std::function<Seconds(const Kernel&)>;

  explicit MeasuredKernels(const KernelMeasurements& from);

  /// Returns the time of a product or attention in 16 bits, or of a memory-bound kernel of `bytes`.
  /// `modelled` is the cost model's time of the kernel, and is returned where nothing of the kind
  /// was measured; `model` is called for the nearest measured shapes.
  Seconds time(const Kernel& kernel, Bytes bytes, Seconds modelled, const Model& model) const;

  /// Returns the time of a collective among `ranks` GPUs of the node, `bytes` as BlockCollective
  /// counts them; nothing if the kind was not measured.
  std::optional<Seconds> collective(BlockCollective::Kind kind, Bytes bytes,
                                    std::uint32_t ranks) const;

  /// Returns the measured rate of the ring collectives as a share of a GPU's NVLink (or PCIe) rate,
  /// at most 2; 0 if nothing was measured. `reduces`: of all-reduces, else of all-gathers.
  double ring_share(const GpuModel& gpu, bool reduces) const;

  /// Throws bad_input if a GPU is not of the measured model: of the same name, or a variant of it
  /// with other memory or links.
  void check_gpu(const GpuModel& gpu) const;

 private:
  /// A measured kernel: logarithms of its dimensions, its time, and the kernel for the cost model.
  struct Shape {
    std::array<double, 4> logs;
    double seconds;
    Kernel kernel;
  };
  using Shapes = std::vector<Shape>;
  /// Memory-bound operators: seconds = bytes x each + start.
  struct Stream {
    double each = 0, start = 0;  ///< each is 0: not measured
  };

  Seconds near(const Shapes& shapes, const std::array<double, 4>& logs, const Kernel& kernel,
               Seconds modelled, const Model& model) const;
  Seconds product(const Kernel& kernel, Seconds modelled, const Model& model) const;
  Seconds attention(const Kernel& kernel, Seconds modelled, const Model& model) const;
  Seconds stream(const Kernel& kernel, Bytes bytes, Seconds modelled) const;

  std::string gpu_;
  std::array<Shapes, 3> products_, grouped_;  ///< one for each pass
  std::array<Shapes, 2> attention_;           ///< forward, backward
  Stream other_, permute_, loss_, fused_loss_;
  std::vector<MeasuredCollective> collectives_;
};

/// Returns the measurements in a file of `orrery calibrate --kernels`. Throws bad_input with the
/// place in the file.
KernelMeasurements load_kernel_measurements(const std::string& path);
/// Returns the price list of a file; null for an empty path. Throws as load_kernel_measurements().
std::shared_ptr<const MeasuredKernels> load_measured_kernels(const std::string& path);

}  // namespace orrery::estimates
