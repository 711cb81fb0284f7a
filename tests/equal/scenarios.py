"""Random scenarios that mix all parts of the scenario format: clusters, models, layouts, policies,
faults, failure rates, noise, several jobs, recorded jobs, collectives, survival and checkpoints.
The generator does not know which mixtures are valid, so some scenarios are refused."""
import random


def _yaml(value):
    """Returns a value as YAML in flow style."""
    if isinstance(value, dict):
        return '{' + ', '.join(f'{key}: {_yaml(each)}' for key, each in value.items()) + '}'
    if isinstance(value, list):
        return '[' + ', '.join(_yaml(each) for each in value) + ']'
    if isinstance(value, bool):
        return 'true' if value else 'false'
    return str(value)


class _Draw:
    """Draws the parts of one scenario."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.pick = self.random.choice

    def chance(self, share):
        """Returns true with this probability."""
        return self.random.random() < share

    def some(self, **values):
        """Returns a part of the keys, each with one of its values."""
        return {key: self.pick(each) for key, each in values.items() if self.chance(0.3)}

    def fabric(self):
        """Returns a fabric of one of the four kinds."""
        kind = self.pick(['fat-tree', 'fat-tree', 'flat', 'ring', 'multi-plane'])
        common = self.some(nvlink_latency=['1 us', '3 us'], nic_latency=['2 us', '5 us'],
                           hop_latency=['500 ns'], in_network_reduction=[True], line_rate=[True])
        if kind == 'fat-tree':
            return {'kind': kind, 'nodes_per_unit': self.pick([1, 2, 4]),
                    'spines': self.pick([1, 2, 4]),
                    'spine_link_bandwidth': self.pick(['100 Gbps', '200 Gbps', '400 Gbps']),
                    **self.some(transport=['destination', 'ecmp', 'adaptive', 'spray'],
                                hash_seed=[0, 7], reroute=['1 ms', '100 ms']), **common}
        if kind == 'ring':
            return {'kind': kind, 'ring_link_bandwidth': '200 Gbps', **common}
        if kind == 'multi-plane':
            return {'kind': kind, 'planes': self.pick([2, 4]), 'switch_ports': self.pick([8, 16]),
                    **self.some(transport=['adaptive', 'spray']), **common}
        return {'kind': kind, **common}

    def cluster(self):
        """Returns (cluster, number of GPUs)."""
        nodes = self.pick([1, 2, 4, 8])
        if self.chance(0.4):
            preset = self.pick(['dgx-a100', 'dgx-h100'])
            return {'preset': preset, 'nodes': nodes}, 8 * nodes
        per_node = self.pick([1, 4, 4, 8])
        node = {'gpu': self.pick(['H100', 'A100-80GB', 'H200']), 'gpus_per_node': per_node,
                'nics_per_node': per_node, 'nic_bandwidth': self.pick(['100 Gbps', '400 Gbps'])}
        cluster = {'nodes': nodes, 'node': node, 'fabric': self.fabric()}
        if self.chance(0.3):
            cluster['price'] = {'gpu_hour': '2.5 USD/h', **self.some(pue=[1.1, 1.4])}
        return cluster, per_node * nodes

    def layout(self, gpus):
        """Returns (layout, ranks) that fits the GPUs."""
        tensor = self.pick([1, 1, 2, 4]) if gpus % 8 == 0 else 1
        pipeline = self.pick([1, 1, 2, 4])
        context = self.pick([1, 1, 1, 2])
        while tensor * pipeline * context > gpus:
            tensor, pipeline, context = max(tensor // 2, 1), max(pipeline // 2, 1), 1
        data = max(1, gpus // (tensor * pipeline * context) // self.pick([1, 1, 1, 2]))
        layout = {'tensor': tensor, 'pipeline': pipeline, 'data': data, **({'context': context} if
                                                                           context > 1 else {})}
        layout.update(self.some(schedule=['one-f-one-b', 'zero-bubble'],
                                shard=['optimizer', 'gradients', 'parameters'],
                                order=['data-last', 'pipeline-last'], balance=['cost']))
        if pipeline > 1 and self.chance(0.3) and 'schedule' not in layout:
            layout['chunks'] = 2
        return layout, tensor * pipeline * context * data

    def model(self):
        """Returns a preset, a small model by hand, or a mixture of experts."""
        if self.chance(0.2):
            return {'preset': self.pick(['llama2-7b', 'llama3-8b', 'gpt-22b'])}
        model = {'layers': self.pick([4, 8, 16]), 'hidden': self.pick([512, 1024]), 'heads': 8,
                 'feed_forward': 2048, 'vocabulary': 32000}
        if self.chance(0.15):
            model['experts'] = {'count': 8, 'top_k': 2, **self.some(skew=[1, 1.5], shared=[1])}
        return model

    def job(self, gpus):
        """Returns (job, ranks)."""
        layout, ranks = self.layout(gpus)
        per_replica = self.pick([2, 4, 8])
        job = {'model': self.model(), 'sequence_length': self.pick([256, 1024]),
               'global_batch': layout['data'] * per_replica + (1 if self.chance(0.03) else 0),
               'micro_batch': 1, 'layout': layout}
        if self.chance(0.4):
            job['pace'] = {'micro_batch': self.pick(['10 ms', '40 ms'])}
        job.update(self.some(overlap=[True, False], bucket=['8 MiB', '64 MiB'],
                             recompute=['selective', 'full'], precision=['fp32', 'fp16'],
                             stack=['nemo', 'megatron-lm-2022'], max_share=[2, 4],
                             offload=['optimizer'], compiled=[True],
                             input=[{'read': '5 ms'}], documents=[{'mean_length': 128, 'cv': 0.5}]))
        return job, ranks

    def policies(self):
        """Returns policies of several families, at most one of each."""
        families = [
            [{'name': 'predictive-rebalance',
              'parameters': self.some(tick=['20 ms', '200 ms'], horizon_steps=[3],
                                      confidence=[1, 2], cooldown_steps=[0, 5])}],
            [{'name': 'recover', 'parameters': {'how': how}} for how in
             ('replace', 'shrink', 'restart')] +
            [{'name': 'cheapest-goodput', 'parameters': self.some(peers=[False], repair=['1 s'])}],
            [{'name': 'checkpoint-interval', 'parameters': {
                'method': method, 'mtbf': '1 min', 'interval': '2 s', 'cost': '100 ms'}}
             for method in ('fixed', 'young', 'daly', 'adaptive')],
            [{'name': 'memory-aware', 'parameters': self.some(warm_up_steps=[0, 2],
                                                              gain_threshold=[0])},
             {'name': 'fixed-codec', 'parameters': {'rules': [{'codec': self.pick(
                 ['bf16', 'int8', 'int4', 'top-k', 'power-sgd'])}], 'warm_up_steps': 1}}],
            [{'name': 'collective-table', 'parameters': {'rules': [{
                'kind': 'all-reduce', 'algorithm': self.pick(['ring', 'tree', 'hierarchical'])}]}}],
            [{'name': name, 'parameters': self.some(placement=['consolidated', 'topology'])}
             for name in ('fifo', 'fifo-skip', 'easy', 'conservative', 'sjf', 'srtf', 'srsf', 'las',
                          'gittins', 'drf', 'max-min', 'finish-time-fairness', 'priority',
                          'multifactor', 'elastic')],
        ]
        return [self.pick(family) for family in families if self.chance(0.35)]

    def fault(self, ranks, gpus, steps):
        """Returns one fault of a rank or of a part."""
        at_step = self.chance(0.5)
        fault = ({'at_step': self.random.randrange(steps)} if at_step else
                 {'at_time': f'{self.random.uniform(0, 2):.3f} s'})
        if self.chance(0.6):
            fault['rank'] = self.random.randrange(ranks)
            effect = self.pick(['slow', 'slow', 'ramp' if at_step else 'slow', 'kill', 'kill',
                                'stop', 'link_slow', 'link_down'])
            fault[effect] = {'slow': self.pick([1.5, 3]), 'ramp': {'slow': 3, 'steps': 5},
                             'link_slow': 4}.get(effect, True)
        else:
            part = self.pick(['gpu', 'gpu', 'gpu', 'node', 'nic', 'nic', 'leaf', 'link'])
            fault[part] = self.random.randrange(gpus) if part in ('gpu', 'nic') else 0
            effect = self.pick(['down', 'rate'])
            fault[effect] = True if effect == 'down' else self.pick([0.25, 0.5])
        if self.chance(0.4) and not {'kill', 'stop'} & set(fault):
            if at_step:
                fault['until_step'] = fault['at_step'] + self.pick([1, 4])
            else:
                fault['for'] = self.pick(['100 ms', '1 s'])
        if 'down' in fault and {'gpu', 'node'} & set(fault) and self.chance(0.5):
            notice = ('notice_steps', [1, 5]) if at_step else ('notice', ['10 ms', '1 s'])
            fault[notice[0]] = self.pick(notice[1])
            if {'until_step', 'for'} & set(fault):
                fault.update(self.some(test=['50 ms']))
        return fault

    def failures(self):
        """Returns failure rates high enough to strike a short run."""
        kinds = [{'cause': 'gpu-lost', 'part': 'gpu', 'mtbf': self.pick(['20 s', '2 min']),
                  'down': True, 'lasts': self.pick(['500 ms', '5 s'])},
                 {'cause': 'slow-node', 'part': 'node', 'mtbf': '10 s', 'rate': 0.5,
                  'lasts': '1 s'},
                 {'cause': 'crash', 'part': 'job', 'mtbf': '5 s', 'kill': True}]
        return {'kinds': self.random.sample(kinds, self.pick([1, 2])), 'until': '10 min'}

    def survival(self):
        """Returns the behaviour after losses."""
        return self.some(detection=['10 ms', '500 ms'], regroup=['40 ms', '1 s'],
                         replacement=['200 ms', '3 s'], restart=['500 ms', '10 s'],
                         on_loss=['automatic', 'replace', 'go-on', 'hold'])

    def work(self, gpus):
        """Returns (keys of the work, ranks): a job with others beside it, or a collective."""
        if self.chance(0.1):
            return {'collective': {
                'kind': self.pick(['all-reduce', 'reduce-scatter', 'all-gather', 'all-to-all',
                                   'broadcast']), 'size': self.pick(['1 KiB', '64 MiB']),
                **self.some(algorithm=['ring', 'tree', 'direct', 'hierarchical'])}}, gpus
        job, ranks = self.job(gpus)
        work = {'job': job, **self.some(elastic=[True])}
        if self.chance(0.15):
            other, _ = self.job(max(1, gpus // 2))
            work['jobs'] = [{'name': 'second', 'job': other, 'steps': self.pick([2, 5]),
                             **self.some(first_gpu=[0, gpus // 2], submit=['300 ms'],
                                         elastic=[True])}]
        if self.chance(0.1):
            work['recorded'] = {'trace': 'recorded-jobs.csv'}
        return work, ranks

    def scenario(self):
        """Returns the scenario's keys."""
        cluster, gpus = self.cluster()
        work, ranks = self.work(gpus)
        steps = self.pick([3, 8, 20, 40])
        out = {'name': 'random', 'cluster': cluster, **work}
        if 'job' in work:
            out['policies'] = self.policies()
        if self.chance(0.6):
            out['faults'] = [self.fault(ranks, gpus, steps)
                             for _ in range(self.pick([1, 1, 2, 3]))]
        if self.chance(0.5):
            out['noise'] = self.some(compute_cv=[0.01, 0.1], sample_cv=[0, 0.05],
                                     staleness=['0 ms', '100 ms'])
        if self.chance(0.5):
            out['survival'] = self.survival()
        if self.chance(0.2):
            out['failures'] = self.failures()
        if self.chance(0.4):
            # The earlier place, which builds before format 1.1 of scenarios read too.
            out['live'] = {'checkpoints': {'folder': 'kept', 'every': self.pick([2, 5]),
                                           **self.some(stall=['20 ms'], write=['300 ms'])}}
        out['run'] = {'steps': steps, 'seed': self.random.randrange(1000),
                      **self.some(memory=['warn'])}
        return out


def random_scenario(seed):
    """Returns (YAML text, options of `orrery simulate`) of the scenario with this seed."""
    draw = _Draw(seed)
    keys = draw.scenario()
    text = ''.join(f'{key}: {_yaml(value)}\n' for key, value in keys.items())
    options = []
    if draw.chance(0.2):
        options += ['--detail', 'full']
    if draw.chance(0.1):
        options += ['--mode', 'shadow']
    if draw.chance(0.1):
        options += ['--on-policy-error', 'static']
    return text, options
