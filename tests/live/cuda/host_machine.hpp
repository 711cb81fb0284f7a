// The CPU in place of a GPU under TransformerStep: the same loops, one lane to a team, products
// written out. Fresh memory holds NaN, so that a value that nobody wrote is noticed.
#pragma once

#include <cstdlib>
#include <cstring>

#include "live/cuda/transformer_step.hpp"

namespace orrery::live::gpu {

/// Machine of TransformerStep on the CPU.
struct HostMachine {
  struct Team {
    u64 lane() const { return 0; }
    u64 lanes() const { return 1; }
    float sum(float value) const { return value; }
    float max(float value) const { return value; }
  };
  template <class Body>
  void for_each(u64 count, const Body& body) {
    for (u64 i = 0; i < count; ++i) body(i);
  }
  template <class Body>
  void teams(u64 count, const Body& body) {
    for (u64 i = 0; i < count; ++i) body(i, Team{});
  }
  template <class Body>
  WordSums sum_words(u64 count, const Body& body) {
    WordSums sums;
    for (u64 i = 0; i < count; ++i) body(i, sums);
    return sums;
  }
  void multiply_matrices(const Product& p) {
    for (u64 one = 0; one < p.many; ++one) {
      const float* const a = p.a + one * p.a_stride;
      const float* const b = p.b + one * p.b_stride;
      float* const c = p.c + one * p.c_stride;
      for (u64 column = 0; column < p.n; ++column) {
        for (u64 row = 0; row < p.m; ++row) {
          double sum = 0;
          for (u64 i = 0; i < p.k; ++i) {
            sum += double{a[p.a_turned ? i + row * p.a_lead : row + i * p.a_lead]} *
                   b[p.b_turned ? column + i * p.b_lead : i + column * p.b_lead];
          }
          float& out = c[row + column * p.c_lead];
          out = static_cast<float>(p.alpha * sum) + (p.beta == 0 ? 0.0F : p.beta * out);
        }
      }
    }
  }
  void* allocate_bytes(u64 bytes) {
    void* const memory = std::malloc(bytes);
    std::memset(memory, 0xFF, bytes);
    return memory;
  }
  void release(void* memory) { std::free(memory); }
  void zero(void* memory, u64 bytes) { std::memset(memory, 0, bytes); }
  void upload_bytes(void* to, const void* from, u64 bytes) { std::memcpy(to, from, bytes); }
  void download_bytes(void* to, const void* from, u64 bytes) { std::memcpy(to, from, bytes); }
};

}  // namespace orrery::live::gpu
