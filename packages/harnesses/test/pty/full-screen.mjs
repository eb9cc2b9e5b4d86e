/** A full-screen program: it shows the size of its terminal and the last key, and ends with `q`. */
const { stdin, stdout } = process;

stdin.setRawMode(true);
stdout.write('\x1b[?1049h\x1b[?25l');

function draw(key) {
  const { columns, rows } = stdout;
  stdout.write(`\x1b[2J\x1b[2;3H\x1b[1;31msize ${columns}x${rows}\x1b[0m\x1b[4;3Hkey ${key}`);
}

draw('none');
stdout.on('resize', () => draw('none'));
stdin.on('data', (key) => {
  const text = String(key);
  if (text === 'q') {
    stdout.write('\x1b[?25h\x1b[?1049l');
    process.exit(3);
  }
  draw(JSON.stringify(text));
});
