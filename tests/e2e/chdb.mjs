// Runs the SQL on standard input in a folder of chdb (a present ClickHouse in a library): node chdb.mjs FOLDER
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';

const { Session } = createRequire(pathToFileURL(process.env.NODE_PATH + '/'))('chdb');
const session = new Session(process.argv[2]);
try {
  process.stdout.write(session.query(readFileSync(0, 'utf8'), 'JSONEachRow') ?? '');
} catch (error) {
  process.stderr.write(`${error.message}\n`);
  process.exitCode = 1;
}
