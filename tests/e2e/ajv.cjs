// Checks a JSON file against a JSON schema: node ajv.cjs SCHEMA FILE
const fs = require('fs');
const Ajv = require('ajv').default;

const [schema, file] = process.argv.slice(2).map((path) => JSON.parse(fs.readFileSync(path, 'utf8')));
delete schema.$schema;
const validate = new Ajv({strict: false}).compile(schema);
console.log(JSON.stringify(validate(file) ? 'valid' : validate.errors.slice(0, 5)));
