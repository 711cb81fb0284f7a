#include "traces/published/published_run.hpp"

#include <gtest/gtest.h>

#include "core/schema/yaml_writer.hpp"
#include "tests/traces/published_row.hpp"
#include "traces/scenario/scenario.hpp"
#include "traces/workload/rank_shape.hpp"

namespace orrery {
namespace {

PublishedRun read(void (*change)(TableRow&)) {
  TableRow row = llama_row();
  change(row);
  return published_run(row);
}

std::string refusal(void (*change)(TableRow&)) { return read(change).refusal; }

bool assumes(const PublishedRun& run, const std::string& text) {
  for (const std::string& each : run.assumed) {
    if (each.find(text) != std::string::npos) return true;
  }
  return false;
}

TEST(PublishedRun, ARowThatSaysEverything) {
  const PublishedRun run = published_run(llama_row());
  EXPECT_EQ(run.refusal, "");
  EXPECT_TRUE(run.assumed.empty());
  EXPECT_EQ(run.job.model().kv_heads(), 8u);
  EXPECT_FALSE(run.job.model().tied_embeddings()) << "70.6e9 parameters have two tables";
  EXPECT_EQ(run.job.layout().tensor(), 4u);
  EXPECT_EQ(run.job.layout().chunks(), 5u);
  EXPECT_EQ(run.job.layout().shard(), "optimizer");
  EXPECT_EQ(run.job.layout().order(), "pipeline-last");
  EXPECT_EQ(run.job.stack(), "nemo");
  EXPECT_TRUE(run.job.overlap());
  EXPECT_EQ(run.cluster.nodes(), 8u);
  EXPECT_EQ(run.cluster.node().gpu(), "H100");
  EXPECT_DOUBLE_EQ(run.cluster.node().nic_bandwidth(), 50e9);
}

TEST(PublishedRun, WhatIsMissingIsAssumedAndNamed) {
  const PublishedRun run = read([](TableRow& row) {
    row.cp.reset();
    row.vpp.reset();
    row.mbs.reset();
    row.dp.reset();
    row.nics_per_node.reset();
    row.nic_gbps.clear();
    row.fabric.clear();
    row.seq_parallel.reset();
    row.dp_shard.clear();
    row.recompute = "recipe (not in table)";
    row.attention.clear();
    row.overlap.clear();
  });
  EXPECT_EQ(run.refusal, "");
  EXPECT_EQ(run.job.layout().data(), 4u);
  for (const char* text : {"cp 1", "vpp 1", "mbs 1", "dp 4", "NICs 8 x 400 Gbps", "fabric",
                           "sequence parallelism on", "shard optimizer", "recompute",
                           "flash attention", "communication overlapped"}) {
    EXPECT_TRUE(assumes(run, text)) << text;
  }
}

TEST(PublishedRun, PrecisionsByTheirManyNames) {
  const auto precision = [](const char* text) {
    TableRow row = llama_row();
    row.precision = text;
    return published_run(row).job.precision();
  };
  EXPECT_EQ(precision("amp_bf16"), "bf16");
  EXPECT_EQ(precision("fp16 or bf16 (source not explicit)"), "bf16");
  EXPECT_EQ(precision("fp16"), "fp16");
  EXPECT_EQ(precision("FP8-CS (FP8-MX)"), "fp8");
  EXPECT_EQ(precision("fp8 rowwise"), "fp8");
  EXPECT_EQ(precision("FP8-MX"), "mxfp8");
  EXPECT_EQ(precision("MXFP8"), "mxfp8");
  EXPECT_EQ(precision("NVFP4"), "nvfp4");
  EXPECT_NE(refusal([](TableRow& row) { row.precision = "int3"; }), "");
}

TEST(PublishedRun, ShardingByItsManyNames) {
  const auto layout = [](const char* text) {
    TableRow row = llama_row();
    row.tp = row.pp = row.vpp = 1;
    row.dp = 64;
    row.dp_shard = text;
    return published_run(row).job.layout();
  };
  EXPECT_EQ(layout("FSDP shard group 8").shard(), "parameters");
  EXPECT_EQ(layout("FSDP shard group 8").shard_group(), 8u);
  EXPECT_EQ(layout("FSDP2 (ZeRO-3)").shard_group(), 0u);
  EXPECT_EQ(layout("FSDP grad/opt (ZeRO-2)").shard(), "gradients");
  EXPECT_EQ(layout("ZeRO-1 within 8 GPUs").shard(), "optimizer");
  EXPECT_EQ(layout("ZeRO-1 within 8 GPUs").shard_group(), 8u);
  EXPECT_EQ(layout("HSDP").shard_group(), 8u);
  EXPECT_EQ(layout("HSDP: data 4 x FSDP 16 devices").shard_group(), 16u);
  EXPECT_EQ(layout("HSDP: data 1 x FSDP 64").shard_group(), 0u);
  EXPECT_EQ(layout("DDP+distributed optimizer (assumed)").shard(), "optimizer");
  EXPECT_EQ(layout("none").shard(), "nothing");
  EXPECT_EQ(layout("none across nodes (PP 8), EP 8 inside the node").shard(), "nothing");
  EXPECT_EQ(layout("none/ZeRO-1").shard(), "optimizer");
  EXPECT_EQ(layout("FSDP (see label)").shard_group(), 32u) << "70.6e9 x 16 bytes in half of 80 GB";
}

TEST(PublishedRun, Machines) {
  const auto cluster = [](const char* gpu, const char* nvlink, TableRow::Count nics,
                          const char* gbps) {
    TableRow row = llama_row();
    row.gpu = gpu;
    row.gpu_mem_gb.reset();
    row.nvlink = nvlink;
    row.nics_per_node = nics;
    row.nic_gbps = gbps;
    return published_run(row).cluster;
  };
  EXPECT_EQ(cluster("A100-SXM4-40GB", "", 8, "200").node().gpu(), "A100-40GB");
  EXPECT_EQ(cluster("A100-SXM4-80GB", "", 8, "200").node().gpu(), "A100-80GB");
  const Topology stated = cluster("H100-80GB", "NVLink4", {}, "400 total per node as stated");
  EXPECT_DOUBLE_EQ(stated.node().nics_per_node() * stated.node().nic_bandwidth(), 50e9);
  const Topology cut = cluster("H100-SXM5-80GB", "NVLink4 400GB/s", 8, "400");
  ASSERT_GT(cut.gpus_size(), 0);
  EXPECT_DOUBLE_EQ(cut.gpus(0).nvlink(), 200e9);
  EXPECT_EQ(stated.fabric().kind(), "fat-tree") << "InfiniBand in the row";
  EXPECT_NE(refusal([](TableRow& row) { row.gpu = "abacus"; }), "");
}

TEST(PublishedRun, RatesOfNicsAreNumbersOrUnknown) {
  const auto with = [](const char* gbps) {
    TableRow row = llama_row();
    row.nic_gbps = gbps;
    return published_run(row);
  };
  EXPECT_DOUBLE_EQ(with("12.5").cluster.node().nic_bandwidth(), 12.5 * 1.25e8);
  for (const char* unknown : {"", "not stated", "infinite"}) {
    EXPECT_EQ(with(unknown).refusal, "") << unknown;
    EXPECT_TRUE(assumes(with(unknown), "NICs 8 x 400 Gbps")) << unknown;
  }
  for (const char* impossible : {"0", "0.001", "-400", "1e9", "1e999", ".5"}) {
    EXPECT_NE(with(impossible).refusal.find("no rate from 1 to 100000 Gbit/s"), std::string::npos)
        << impossible;
  }
}

TEST(PublishedRun, ChunksBeyondTheModelAreRefused) {
  const auto with = [](std::uint32_t stages, std::uint32_t chunks) {
    TableRow row = llama_row();
    row.n_params_b.reset();
    row.dp = *row.dp * *row.pp / stages;
    row.pp = stages;
    row.vpp = chunks;
    row.layers = 30;
    return published_run(row);
  };
  EXPECT_EQ(with(4, 8).refusal, "") << "30 layers, the embedding and the loss";
  EXPECT_EQ(with(4, 8).job.layout().chunks(), 8u);
  EXPECT_EQ(with(4, 1000).refusal, "vpp is 1000, expected at most 8 chunks a stage: the 30 "
                                   "layers, the embedding and the loss on 4 stages");
  EXPECT_EQ(with(1, 5).job.layout().chunks(), 1u) << "no pipeline";
  EXPECT_NE(with(1, 1000).refusal, "");
}

TEST(PublishedRun, AnotherMemoryIsAnotherGpuOfTheFamily) {
  const PublishedRun run = read([](TableRow& row) { row.gpu_mem_gb = 64; });
  EXPECT_TRUE(assumes(run, "H100 with 64 GiB of memory"));
  ASSERT_EQ(run.cluster.gpus_size(), 1);
  EXPECT_DOUBLE_EQ(run.cluster.gpus(0).memory(), 64.0 * (1ull << 30));
  EXPECT_TRUE(read([](TableRow& row) { row.gpu_mem_gb = 80; }).assumed.empty()) << "as sold";
}

TEST(PublishedRun, NanotronGivesLayersToStagesByCost) {
  const PublishedRun run = read([](TableRow& row) {
    row.framework = "nanotron v0.5";
    row.dp_shard = "ZeRO-1";
    row.vpp = 1;
  });
  EXPECT_EQ(run.job.layout().balance(), "cost");
  EXPECT_FALSE(run.job.overlap()) << "fp32 sums are scattered after the last micro-batch";
  EXPECT_EQ(run.job.gradient_bytes(), 4u);
  const PublishedRun plain = read([](TableRow& row) {
    row.framework = "nanotron v0.5";
    row.dp_shard = "none";
    row.vpp = 1;
  });
  EXPECT_TRUE(plain.job.overlap()) << "DistributedDataParallel";
}

TEST(PublishedRun, FabricsAndNvlinkDomains) {
  const PublishedRun roce = read([](TableRow& row) { row.fabric = "RoCE 1600 Gbps node-node"; });
  EXPECT_EQ(roce.cluster.fabric().kind(), "flat");
  const PublishedRun rack = read([](TableRow& row) {
    row.gpu = "GB200";
    row.nvlink = "NVLink5 1800GB/s bidir, NVL72 domain";
    row.fabric = "GB200 NVL72";
    row.gpus_per_node = row.nics_per_node = 4;
  });
  EXPECT_EQ(rack.refusal, "");
  EXPECT_EQ(rack.cluster.nodes(), 16u);
  EXPECT_EQ(rack.cluster.node().nvlink_domain(), 18u);
}

TEST(PublishedRun, LatentAttentionAndExperts) {
  const PublishedRun run = read([](TableRow& row) {
    row.model = "deepseek-v3-671b";
    row.kv_heads = "MLA";
    row.ffn = 18432;
    row.moe_experts = 256;
    row.moe_topk = 8;
    row.ep = 4;
  });
  EXPECT_EQ(run.job.model().latent_attention().key_value_rank(), 512u);
  EXPECT_EQ(run.job.model().experts().feed_forward(), 2048u);
  EXPECT_EQ(run.job.model().experts().shared(), 1u);
  EXPECT_EQ(run.job.model().experts().dense_layers(), 3u);
  EXPECT_EQ(run.job.layout().expert(), 4u);
}

TEST(PublishedRun, PaddedExpertsComputeTheirCapacity) {
  const auto rows_of = [](const char* overlap) {
    TableRow row = llama_row();
    row.n_params_b.reset();
    row.moe_experts = 16;
    row.moe_topk = 2;
    row.ep = 4;
    row.overlap = overlap;
    const PublishedRun run = published_run(row);
    EXPECT_EQ(run.refusal, "") << overlap;
    EXPECT_EQ(assumes(run, "nothing dropped"), run.job.model().experts().capacity() == 0);
    return RankShape(run.job).expert.rows;
  };
  const double even = rows_of("all");
  EXPECT_DOUBLE_EQ(rows_of("dense_matmul, capacity factor 2 (pads: FLOPs x 2)"), 2 * even);
  EXPECT_DOUBLE_EQ(rows_of("dense_matmul, capacity factor 1.0"), even);
  EXPECT_DOUBLE_EQ(rows_of("capacity factor 2"), even) << "tokens are dropped, experts not padded";
  EXPECT_DOUBLE_EQ(rows_of("dense_matmul, capacity factor 8"), 8 * even) << "on 4 ranks too";
  const PublishedRun dense = read([](TableRow& row) { row.overlap = "capacity factor 2 (pads)"; });
  EXPECT_FALSE(dense.job.model().has_experts());
}

TEST(PublishedRun, DenseLayersOfDeepSeekV2HaveASizeOfTheirOwn) {
  const PublishedRun run = read([](TableRow& row) {
    row.model = "deepseekv2-l4";
    row.kv_heads = "MLA";
    row.ffn = 1536;
    row.moe_experts = 160;
    row.moe_topk = 6;
    row.ep = 4;
  });
  EXPECT_EQ(run.job.model().feed_forward(), 12288u);
  EXPECT_EQ(run.job.model().experts().feed_forward(), 1536u);
  EXPECT_EQ(run.job.model().experts().shared(), 2u);
  EXPECT_EQ(run.job.model().experts().dense_layers(), 1u);
}

TEST(PublishedRun, AnOddRowIsRefusedInWords) {
  EXPECT_EQ(refusal([](TableRow& row) { row.layers.reset(); }), "'layers' is missing");
  EXPECT_EQ(refusal([](TableRow& row) { row.kv_heads = "few"; }),
            "kv_heads is 'few', no whole number and not MLA");
  EXPECT_EQ(refusal([](TableRow& row) { row.dp = 5; }),
            "tp x pp x cp x dp = 80 is not n_gpus = 64");
  EXPECT_NE(refusal([](TableRow& row) { row.tp = row.n_gpus = 48; }), "");
  EXPECT_NE(refusal([](TableRow& row) { row.gbs = 127; }), "");
  EXPECT_EQ(refusal([](TableRow& row) { row.problems = {"hidden is 'x'"}; }), "hidden is 'x'");
}

TEST(PublishedRun, MaxTextWithDistributedExpertsIsNotOverlapped) {
  const auto overlap_of = [](TableRow::Count experts, TableRow::Count ranks) {
    TableRow row = llama_row();
    row.framework = "MaxText";
    row.n_params_b.reset();
    row.tp = row.pp = row.vpp = 1;
    row.dp = 64;
    row.moe_experts = experts;
    row.moe_topk = 2;
    row.ep = ranks;
    row.overlap.clear();
    const PublishedRun run = published_run(row);
    EXPECT_EQ(run.refusal, "");
    EXPECT_EQ(assumes(run, "communication not overlapped"), !run.job.overlap());
    return run.job.overlap();
  };
  EXPECT_FALSE(overlap_of(16, 8));
  EXPECT_TRUE(overlap_of(16, 1));
  EXPECT_TRUE(overlap_of({}, 1));
}

TEST(PublishedRun, WordsOrAColumnNameTheKindOfContextParallelism) {
  const auto run_of = [](std::uint32_t context, const char* overlap, const char* framework,
                         const char* column) {
    TableRow row = llama_row();
    row.cp = context;
    row.dp = 4 / context;
    row.overlap = overlap;
    row.framework = framework;
    row.context_kind = column;
    return published_run(row);
  };
  const auto kind = [&](std::uint32_t context, const char* overlap, const char* framework,
                        const char* column = "") {
    const PublishedRun run = run_of(context, overlap, framework, column);
    EXPECT_EQ(run.refusal, "");
    return run.job.layout().context_kind();
  };
  const char* const xtuner = "XTuner 0.1.2x + DeepSpeed (Ulysses-like)";
  EXPECT_EQ(kind(2, "Ulysses all-to-all around attention", "NeMo"), "ulysses");
  EXPECT_EQ(kind(2, "all", xtuner), "ulysses");
  EXPECT_EQ(kind(2, "all", xtuner, "ring"), "ring");
  EXPECT_EQ(kind(2, "all", "NeMo"), "ring");
  EXPECT_EQ(kind(2, "all", "NeMo", "Ulysses"), "ulysses");
  EXPECT_EQ(kind(1, "all", xtuner), "ring") << "nothing to split";
  EXPECT_EQ(run_of(2, "all", "NeMo", "zigzag").refusal,
            "context_kind is 'zigzag', expected ring or ulysses");
}

TEST(PublishedRun, UlyssesOfMoreRanksThanHeadsIsRefused) {
  const std::string refused = refusal([](TableRow& row) {
    row.context_kind = "ulysses";
    row.n_gpus = 16 * 12;
    row.tp = 4;
    row.cp = 12;
    row.dp = 1;
    row.seq_len = 4096 * 3;
  });
  EXPECT_TRUE(refused.starts_with("layout.context_kind: ")) << refused;
}

TEST(PublishedRun, AnUnknownFrameworkTakesTheGenericStack) {
  const PublishedRun run = read([](TableRow& row) { row.framework = "HomeMade 3"; });
  EXPECT_EQ(run.job.stack(), "generic");
  EXPECT_TRUE(assumes(run, "generic software stack"));
}

TEST(PublishedRun, AdaptersAreTrainedByTheColumnElseByTheName) {
  const auto rank = [](const char* model, TableRow::Count column) {
    TableRow row = llama_row();
    row.model = model;
    row.adapter_rank = column;
    return published_run(row).job.adapter_rank();
  };
  EXPECT_EQ(rank("llama3.1-70b", {}), 0u);
  EXPECT_EQ(rank("llama3.1-70b", 8), 8u);
  EXPECT_EQ(rank("llama2-70b LoRA r16", {}), 16u);
  EXPECT_EQ(rank("llama2-70b LoRA r16", 0), 0u);
}

TEST(PublishedRun, TheLossIsThatOfTheColumnElseOfTheStack) {
  const auto run = [](const char* loss) {
    TableRow row = llama_row();
    row.loss = loss;
    return published_run(row);
  };
  EXPECT_FALSE(run("").job.has_software());
  EXPECT_EQ(run("fused").job.software().logit_bytes(), 2);
  EXPECT_EQ(run("Chunked").job.software().logit_bytes(), 0);
  EXPECT_EQ(run("plain").job.software().logit_bytes(), 16);
  EXPECT_EQ(run("plain").job.software().name(), "nemo");
  EXPECT_EQ(run("odd").refusal, "loss is 'odd', expected fused, chunked or plain");
}

TEST(PublishedRun, AStackInPlaceOfTheRowsKeepsTheLoss) {
  TableRow row = llama_row();
  row.loss = std::string("plain");
  PublishedRun run = published_run(row);
  SoftwareStack other;
  other.set_name("nemo");
  other.set_gemm(2);
  use_stack(other, run);
  EXPECT_EQ(run.job.software().gemm(), 2);
  EXPECT_EQ(run.job.software().logit_bytes(), 16);
}

TEST(PublishedRun, ARecipeOffloadsWhatDoesNotFit) {
  TableRow row = llama_row();
  row.tp = row.pp = row.vpp = 1;
  row.dp = 64;
  row.dp_shard = std::string("FSDP");
  row.framework = std::string("MaxText");
  row.recompute = std::string("custom (recipe)");
  row.seq_len = 512;
  EXPECT_EQ(published_run(row).job.offload(), "none");
  row.seq_len = 8192;
  EXPECT_EQ(published_run(row).job.offload(), "activations");
}

TEST(PublishedRun, OptimizerStateOfAFramework) {
  TableRow row = llama_row();
  row.framework = std::string("NeMo-Automodel");
  EXPECT_EQ(published_run(row).job.optimizer_bytes(), 4);
  row.optimizer_bytes = 12;
  EXPECT_EQ(published_run(row).job.optimizer_bytes(), 12);
}

TEST(PublishedRun, TheScenarioReadsBackToTheSameJob) {
  TableRow row = llama_row();
  for (const char* loss : {"", "chunked"}) {
    row.loss = loss;
    const PublishedRun run = published_run(row);
    const LoadedScenario read_back = parse_scenario(to_yaml(scenario_of(run, "a")), "a.yaml", {});
    EXPECT_EQ(read_back.scenario.job().SerializeAsString(), run.job.SerializeAsString());
  }
}

}  // namespace
}  // namespace orrery
