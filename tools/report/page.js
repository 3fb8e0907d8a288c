// SPDX-License-Identifier: Apache-2.0
// Draws the report from its data, with Chart.js.
'use strict';
(() => {
  const data = JSON.parse(document.getElementById('data').textContent);
  const root = document.getElementById('report');
  const colors = ['#2563eb', '#d97706', '#059669', '#db2777', '#7c3aed', '#0891b2',
                  '#65a30d', '#dc2626', '#475569', '#b45309'];
  const steps = data.steps;
  Chart.defaults.animation = false;
  Chart.defaults.maintainAspectRatio = false;
  Chart.defaults.font.family = 'system-ui, sans-serif';

  const element = (tag, parent, text, name) => {
    const made = document.createElement(tag);
    if (text !== undefined) made.textContent = text;
    if (name) made.className = name;
    parent.appendChild(made);
    return made;
  };
  const bytes = (count) => {
    const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'];
    let unit = 0;
    while (count >= 1024 && unit + 1 < units.length) { count /= 1024; ++unit; }
    return (unit === 0 ? count : count.toFixed(1)) + ' ' + units[unit];
  };
  const count = (number) => number.toLocaleString('en-US');
  const seconds = (micros) => (micros / 1e6).toPrecision(3) + ' s';
  // JSON has no NaN: such numbers are strings, and leave gaps.
  const number = (value) => (typeof value === 'number' ? value : null);

  const section = (title, note) => {
    element('h2', root, title);
    if (note) element('p', root, note, 'quiet');
  };
  const grid = (name) => element('div', root, undefined, 'grid ' + (name || ''));
  const chart = (parent, title, config, small) => {
    const box = element('div', parent, undefined, 'chart' + (small ? ' small' : ''));
    const canvas = element('canvas', box);
    canvas.setAttribute('role', 'img');
    canvas.setAttribute('aria-label', title);
    const options = config.options || {};
    options.plugins = Object.assign({title: {display: true, text: title}}, options.plugins);
    return new Chart(canvas, Object.assign(config, {options}));
  };
  const axis = (title, format) => ({
    title: {display: true, text: title},
    ticks: format ? {callback: format} : {},
    beginAtZero: true,
  });
  const labels = steps.map((step) => step.step);
  const lines = (parent, title, sets, unit, format) => chart(parent, title, {
    type: 'line',
    data: {labels, datasets: sets.map((set, i) => Object.assign({
      borderColor: colors[i % colors.length], backgroundColor: colors[i % colors.length],
      borderWidth: 1.5, pointRadius: steps.length > 60 ? 0 : 2, spanGaps: true}, set))},
    options: {
      scales: {x: {title: {display: true, text: 'step'}},
               y: Object.assign(axis(unit, format), {beginAtZero: unit !== ''})},
      plugins: {legend: {display: sets.length > 1}}},
  });
  const table = (columns, rows) => {
    const made = element('table', element('div', root, undefined, 'scroll'));
    const head = element('tr', element('thead', made));
    for (const [name, kind] of columns) element('th', head, name, kind);
    const body = element('tbody', made);
    for (const row of rows) {
      const line = element('tr', body);
      row.forEach((value, i) => element('td', line, String(value), columns[i][1]));
    }
  };

  const header = () => {
    element('h1', root, data.store);
    element('p', root, `store ${data.uuid}, looked at ${data.made_at} with ckptdb ` +
            data.library_version, 'quiet');
    const cards = element('div', root, undefined, 'cards');
    const card = (title, value) => {
      const made = element('div', cards, undefined, 'card');
      element('b', made, value);
      element('span', made, title, 'quiet');
    };
    card('steps', count(data.all_steps));
    if (data.disk_bytes !== null) {
      card('on disk', bytes(data.disk_bytes));
      card('free on the file system', bytes(data.available_bytes));
    }
    if (steps.length === 0) return;
    const last = steps[steps.length - 1];
    card('newest step', count(last.step));
    card('saved', last.committed_at.replace('T', ' ').slice(0, 19));
    card('versions in its chain', count(last.chain_length));
    if (data.all_steps > steps.length) {
      element('p', root, `Only the newest ${count(steps.length)} steps are shown.`, 'quiet');
    }
  };
  const health = () => {
    section('Health');
    if (data.findings.length === 0) {
      element('p', root, 'Nothing was found. The command "ckptdb verify" reads and checks every byte.',
              'quiet');
      return;
    }
    const list = element('ul', root, undefined, 'findings');
    for (const finding of data.findings) element('li', list, finding);
  };
  const timeline = () => {
    section('Timeline', 'A point for each step: when it was saved. A line joins a delta step ' +
            'to its parent; each branch has a colour.');
    const branches = [...new Set(steps.map((step) => step.branch))];
    const kinds = [['full', 'rect', 6], ['delta', 'circle', 3]];
    const sets = [];
    branches.forEach((branch, i) => {
      const color = colors[i % colors.length];
      for (const [kind, pointStyle, pointRadius] of kinds) {
        const points = steps.filter((step) => step.branch === branch && step.kind === kind);
        if (points.length === 0) continue;
        sets.push({
          label: `${kind}, branch ${i + 1}`, type: 'scatter', pointStyle, pointRadius,
          borderColor: color, backgroundColor: color,
          data: points.map((step) => ({x: step.step, y: step.committed_at_micros / 6e7}))});
      }
    });
    const begin = Math.min(...steps.map((step) => step.committed_at_micros)) / 6e7;
    for (const set of sets) for (const point of set.data) point.y -= begin;
    const place = new Map(steps.map((step) => [`${step.step}.${step.attempt}`, step]));
    const links = [];
    for (const step of steps) {
      const parent = step.parent && place.get(`${step.parent.step}.${step.parent.attempt}`);
      if (!parent) continue;
      for (const end of [parent, step]) {
        links.push({x: end.step, y: end.committed_at_micros / 6e7 - begin});
      }
      links.push({x: step.step, y: NaN});
    }
    if (links.length > 0) {
      sets.push({label: 'parent', type: 'line', data: links, borderColor: '#94a3b8',
                 backgroundColor: '#94a3b8', borderWidth: 1, pointRadius: 0, spanGaps: false});
    }
    chart(grid(), 'Steps over time', {
      data: {datasets: sets},
      options: {scales: {x: {type: 'linear', title: {display: true, text: 'step'}},
                         y: axis('minutes since the first one shown')}}});
  };
  const metrics = () => {
    const names = [...new Set(steps.flatMap((step) => Object.keys(step.metrics)))];
    if (names.length === 0) return;
    section('Metrics');
    const place = grid();
    for (const name of names) {
      lines(place, name, [{label: name, data: steps.map((step) => number(step.metrics[name]))}],
            '');
    }
  };
  const sizes = () => {
    section('Bytes and rows of each step',
            'A step owns the bytes that no other step uses. Rows of a delta step are those ' +
            'that changed.');
    const place = grid();
    lines(place, 'Bytes', [
      {label: 'saved', data: steps.map((step) => step.raw_bytes)},
      {label: 'own, on disk', data: steps.map((step) => step.exclusive_bytes)}], 'bytes', bytes);
    const names = [...new Set(steps.flatMap((step) => step.tables.map((each) => each.name)))];
    if (names.length > 0) {
      const of = (field) => names.map((name) => ({
        label: name,
        data: steps.map((step) => (step.tables.find((each) => each.name === name) || {})[field])}));
      lines(place, 'Rows by table', of('rows'), 'rows', count);
      lines(place, 'Bytes by table', of('stored_bytes'), 'bytes', bytes);
    }
    if (data.slots.length > 0) {
      chart(place, 'Slots of the newest step', {
        type: 'bar',
        data: {labels: data.slots.map((slot) => `${slot.table}.${slot.slot}`),
               datasets: [{label: 'bytes', backgroundColor: colors[0],
                           data: data.slots.map((slot) => slot.bytes)}]},
        options: {indexAxis: 'y', scales: {x: axis('bytes', bytes)},
                  plugins: {legend: {display: false}}}});
    }
  };
  const durations = () => {
    section('Durations and stalls', data.saves.length > 0 ? undefined :
            'How long the training waited is in the manager\'s statistics: pass the file of ' +
            'its option statistics_path with --file.');
    const place = grid();
    lines(place, 'From the beginning of a save to its commit',
          [{label: 'save', data: steps.map((step) => step.save_micros / 1e6)}], 'seconds');
    if (data.saves.length === 0) return;
    const of = (field) => data.saves.map((save) => save[field] / 1e6);
    chart(place, 'The training waited, and the whole save', {
      type: 'line',
      data: {labels: data.saves.map((save) => save.step), datasets: [
        {label: 'waited', data: of('blocking_micros'), borderColor: colors[1],
         backgroundColor: colors[1], borderWidth: 1.5, pointRadius: 1},
        {label: 'whole save', data: of('total_micros'), borderColor: colors[0],
         backgroundColor: colors[0], borderWidth: 1.5, pointRadius: 1}]},
      options: {scales: {x: {title: {display: true, text: 'step'}}, y: axis('seconds')}}});
  };
  const tensors = () => {
    if (data.tensors.length === 0) return;
    const read = data.tensors[0].steps.length;
    section('Tensors', `Mean and standard deviation in ${read} steps spread over those shown, ` +
            'the drift from each of them to the next, and the distribution in the first and ' +
            'the last of them.');
    const place = grid('tensors');
    for (const {name, steps: stats} of data.tensors) {
      chart(place, name, {
        type: 'line',
        data: {labels: stats.map((each) => each.step), datasets: [
          {label: 'mean', data: stats.map((each) => number(each.mean)), borderColor: colors[0],
           backgroundColor: colors[0], borderWidth: 1.5, pointRadius: 2},
          {label: 'std', data: stats.map((each) => number(each.std)), borderColor: colors[1],
           backgroundColor: colors[1], borderWidth: 1.5, pointRadius: 2}]}}, true);
      const moved = stats.filter((each) => each.cosine !== null);
      if (moved.length > 0) {
        const line = (label, axisId, color, values) => ({
          label, data: values, yAxisID: axisId, borderColor: color, backgroundColor: color,
          borderWidth: 1.5, pointRadius: 2});
        chart(place, `${name}: drift`, {
          type: 'line',
          data: {labels: moved.map((each) => each.step), datasets: [
            line('relative L2', 'y', colors[2], moved.map((each) => number(each.relative_l2))),
            line('cosine', 'cosine', colors[3], moved.map((each) => number(each.cosine)))]},
          options: {scales: {y: axis('relative L2'),
                             cosine: {position: 'right', grid: {drawOnChartArea: false},
                                      title: {display: true, text: 'cosine'}}}}}, true);
      }
      const shown = [stats[0], stats[stats.length - 1]].filter(
          (each, i) => each.histogram.length > 0 && (i === 0 || stats.length > 1));
      if (shown.length === 0) continue;
      chart(place, `${name}: distribution`, {
        type: 'line',
        data: {datasets: shown.map((each, i) => ({
          label: `step ${each.step}`, borderColor: colors[i], backgroundColor: colors[i] + '30',
          borderWidth: 1.5, pointRadius: 0, stepped: 'middle', fill: true,
          data: each.histogram.map((size, bin) => ({
            x: each.min + (bin + 0.5) * (each.max - each.min) / each.histogram.length,
            y: size}))}))},
        options: {scales: {x: {type: 'linear'}, y: {beginAtZero: true}}}}, true);
    }
  };
  const list = () => {
    section('Steps');
    table([['step', ''], ['kind', 'text'], ['saved (UTC)', 'text'], ['because', 'text'],
           ['ranks', ''], ['chain', ''], ['rows', ''], ['bytes', ''], ['own', ''],
           ['took', ''], ['flags', 'text']],
          steps.slice().reverse().map((step) => [
            step.step, step.kind, step.committed_at.replace('T', ' ').slice(0, 19),
            step.saved_reason || '', step.world_size,
            step.chain_length, count(step.rows), bytes(step.raw_bytes),
            bytes(step.exclusive_bytes), seconds(step.save_micros),
            ['pinned', 'ephemeral', 'quarantined'].filter((flag) => step[flag]).join(' ')]));
  };

  header();
  health();
  if (steps.length === 0) return;
  timeline();
  metrics();
  sizes();
  durations();
  tensors();
  list();
})();
