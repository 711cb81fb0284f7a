// A row of a table of published runs that the tests vary.
#pragma once

#include <string>

#include "traces/published/published_table.hpp"

namespace orrery {

/// Llama 3.1 70B on 64 H100, everything said.
inline TableRow llama_row() {
  TableRow row;
  row.line = 2;
  row.id = std::string("a");
  row.model = std::string("llama3.1-70b");
  row.n_params_b = 70.6;
  row.layers = 80;
  row.hidden = 8192;
  row.heads = 64;
  row.kv_heads = std::string("8");
  row.ffn = 28672;
  row.gated_mlp = 1;
  row.vocab = 128256;
  row.seq_len = 8192;
  row.gpu = std::string("H100-SXM5-80GB");
  row.gpu_mem_gb = 80;
  row.n_gpus = 64;
  row.gpus_per_node = 8;
  row.nvlink = std::string("NVLink4 900GB/s bidir");
  row.nics_per_node = 8;
  row.nic_gbps = std::string("400");
  row.fabric = std::string("InfiniBand NDR");
  row.tp = 4;
  row.pp = 4;
  row.dp = 4;
  row.cp = 1;
  row.ep = 1;
  row.vpp = 5;
  row.seq_parallel = 1;
  row.dp_shard = std::string("distributed optimizer");
  row.precision = std::string("bf16");
  row.mbs = 1;
  row.gbs = 128;
  row.recompute = std::string("none");
  row.attention = std::string("flash");
  row.framework = std::string("NeMo/Megatron-Core");
  row.overlap = std::string("all");
  return row;
}

}  // namespace orrery
