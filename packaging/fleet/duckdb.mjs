// Runs the SQL on standard input on a DuckDB file, and prints the rows of its last statement as JSON:
//
//   node duckdb.mjs fleet.duckdb < duckdb/leaking_hosts.sql
//
// The package is found as node finds packages, from the current folder on too: npm install @duckdb/node-api
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';

function findPackage() {
  for (const from of [import.meta.url, pathToFileURL(process.cwd() + '/'), ...(process.env.NODE_PATH ?? '').split(':')
    .filter(Boolean).map((folder) => pathToFileURL(folder + '/'))]) {
    try {
      return createRequire(from)('@duckdb/node-api');
    } catch (error) {
      if (error.code !== 'MODULE_NOT_FOUND') throw error;
    }
  }
  throw new Error('there is no @duckdb/node-api here: npm install @duckdb/node-api');
}

// 64-bit integers and decimals as numbers, lists as arrays.
function plain(value) {
  if (typeof value === 'bigint') return Number(value);
  if (value === null || typeof value !== 'object') return value;
  if (Array.isArray(value.items)) return value.items.map(plain);
  if (typeof value.toDouble === 'function') return value.toDouble();
  return String(value);
}

try {
  const { DuckDBInstance } = findPackage();
  const [path] = process.argv.slice(2);
  if (path === undefined) throw new Error('usage: node duckdb.mjs FILE < SQL');
  const instance = await DuckDBInstance.create(path);
  const connection = await instance.connect();
  const reader = await connection.runAndReadAll(readFileSync(0, 'utf8'));
  const names = reader.columnNames();
  const rows = reader.getRows().map((row) => Object.fromEntries(row.map((value, i) => [names[i], plain(value)])));
  process.stdout.write(JSON.stringify(rows) + '\n');
  connection.closeSync();
  instance.closeSync();
} catch (error) {
  process.stderr.write(`duckdb.mjs: ${error.message}\n`);
  process.exitCode = 1;
}
