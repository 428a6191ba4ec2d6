const one=selector=>document.querySelector(selector),box=one("[type=search]"),found=one("#found"),root=document.documentElement;
let rows=[];
const index=()=>{rows=[...document.querySelectorAll("#entries tr")].map(row=>({row,link:row.querySelector("a"),name:row.cells[0].textContent.toLowerCase()}))},shown=()=>rows.filter(({row})=>!row.hidden);
index();
root.classList.add("js");
box.hidden=false;
box.addEventListener("input",()=>{const wanted=box.value.toLowerCase().split(/\s+/).filter(Boolean);let count=0;for(const{row,name}of rows)if(!(row.hidden=!wanted.every(word=>name.includes(word))))count++;found.hidden=!wanted.length;found.textContent=(count?count+" of "+rows.length+" match.":"Nothing here matches.")+(box.form?" Enter searches the pages.":"")});
const close=menu=>{if(menu){menu.open=false;menu.querySelector("summary").focus()}};
document.addEventListener("keydown",event=>{
if(event.ctrlKey||event.metaKey||event.altKey||event.isComposing||one("dialog[open]"))return;
if(event.key==="Escape"&&one("details[open]"))return close(one("details[open]"));
const typing=event.target===box,step={ArrowDown:1,ArrowUp:-1}[event.key];
if(!typing&&event.target.form)return;
if(step){const links=shown().map(({link})=>link),at=links.indexOf(document.activeElement),next=at<0?(step>0?0:links.length-1):at+step;if(next<0)box.focus();else links[next]?.focus()}
else if(event.key==="Enter"&&typing&&!box.form)shown()[0]?.link.click();
else if(event.key==="Escape"&&typing){box.value="";box.dispatchEvent(new Event("input"));box.blur()}
else if(event.key==="/"&&!typing){box.focus();box.select()}
else if(event.key==="Backspace"&&!typing){const up=one("a[rel=up]");if(!up)return;up.click()}
else return;
event.preventDefault()});
document.addEventListener("toggle",({target})=>{if(target.tagName!=="DETAILS"||!target.open)return;for(const other of document.querySelectorAll("details[open]"))if(other!==target)other.open=false;const later=target.querySelector("noscript");if(later)later.outerHTML=later.textContent;const input=target.querySelector("input");input?.focus();input?.setSelectionRange(0,input.value.lastIndexOf(".")>0?input.value.lastIndexOf("."):input.value.length)},true);
document.addEventListener("click",({target})=>{const menu=one("details[open]");if(menu&&!menu.contains(target))menu.open=false});
document.addEventListener("submit",event=>{const name=event.submitter?.closest("tr")?.querySelector("bdi").textContent;if(event.submitter?.matches(".bad")&&!confirm("Delete "+name+"?"))event.preventDefault()});
